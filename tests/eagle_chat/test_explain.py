"""Why a node ended as it did, and what a round gave, in words."""

from dataclasses import replace

import pytest

from eagle_chat.layout.cells import next_node
from eagle_chat.layout.explain import chain_line, expected_tokens, explain, inspected, round_line
from eagle_chat.layout.rows import ROLES, row_text, row_width
from eagle_chat.layout.states import own_token
from eagle_chat.phases import DRAFTED
from eagle_chat.records import Dropped, RoundRecord, SizingRecord
from tests.eagle_chat.examples import (
    example_plain,
    example_prefill,
    example_round,
    example_round_60,
    random_round,
    verdict,
)

TREE = example_round().tree
ROUND = example_round()  # because → of → the → scattering, then the target's " of"
CUT = verdict(7, TREE, (0, 1, 4), None)
MISSED = replace(  # the target's own token had been drawn after " scattering" and was not kept
    ROUND, tree=replace(TREE, dropped=(Dropped(99, b" of", 6, 0.2, -4.0, False),))
)
UNKNOWN = replace(ROUND, tree=replace(TREE, values=None, target=None, dropped=(), drawn=(), cutoff=None))
RESTED = replace(
    example_plain(), tree=replace(example_plain().tree, sizing=SizingRecord(1.0, 9.0, 9.0, "rest"))
)
TO_THE_END = verdict(7, TREE, (0, 1, 3, 8), b" that")


@pytest.mark.parametrize(
    ("record", "node", "words"),
    [
        (ROUND, 0, "the last token of the text so far: this round begins behind it"),
        (ROUND, 1, 'accepted: the drafter\'s best of 2 after "because", and what the target took'),
        (ROUND, 4, 'accepted: only the drafter\'s second of 2 after "of", but what the target took'),
        (TO_THE_END, 8, 'accepted: the only draft after "a", and what the target took'),
        (ROUND, 3, 'rejected: after "of" the target took "the" instead (52 % against 30 %)'),
        (
            verdict(7, TREE, (0, 1), b" it", 0.4),
            3,
            'rejected: after "of" the target took "it" instead (40 % against 30 %),'
            " which is not among the drafts",
        ),
        (UNKNOWN, 3, 'rejected: after "of" the target took "the" instead'),
        (ROUND, 5, 'never reached: its parent "the" was rejected, the target took "of" instead'),
        (
            verdict(7, TREE, (0, 2), b" sun"),
            8,
            'never reached: above it, "of" was rejected, the target took "the" instead',
        ),
        (CUT, 6, 'not decided: the reply ended at "the", before its turn came'),
        (CUT, 3, 'rejected: after "of" the target took "the" instead (52 % against 30 %)'),
        (ROUND, 9, "drawn, never expanded, not kept: its value -3.00 is below the cut-off -2.90"),
        (ROUND, 10, "drawn and expanded, then not kept: its value -3.12 is below the cut-off -2.90"),
        (MISSED, 9, "drawn, never expanded, not kept: its value -4.00 is below the cut-off -2.90;"
         " the target wanted it"),
        (MISSED, 10, 'the target\'s own: drawn after "scattering", but not kept'
         " (value -4.00, cut-off -2.90)"),
        (ROUND, 12, 'the target\'s own: the drafts ended at "scattering",'
         " and one more token comes with every pass"),
        (example_round(accepted=1), 12, 'the target\'s own: none of the 2 drafts after "of" was it'),
        (verdict(7, TREE, (0, 2), b" sun"), 12, 'the target\'s own: the only draft after "the" was another'),
        (example_plain(), 1, "the target's own: nothing was drafted in this round"),
        (RESTED, 1, "the target's own: nothing was drafted in this round"),
        (example_prefill(), 0, "the end of the prompt: the reply begins behind it"),
        (example_prefill(), 1, "the reply's first token: reading the prompt gives it"),
    ],
)  # fmt: skip
def test_every_fate(record: RoundRecord, node: int, words: str) -> None:
    """A node given another node's reason, a wrong rank, numbers of the wrong side, an invented cut-off."""
    record = replace(record, tree=replace(record.tree, cutoff=-2.9 if record.tree.dropped else None))
    assert explain(record, node) == words


def test_not_below_the_cut_off() -> None:
    """Where the cut-off is unknown or equal, saying "below" would be false."""
    for cutoff in (None, -3.5):
        record = replace(ROUND, tree=replace(TREE, cutoff=cutoff))
        assert explain(record, 9).endswith("not kept: 8 others had better values")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (ROUND, 'expected 2.8 tokens, got 4: "of the scattering" held to its end, and "of" came with it'),
        (example_round(accepted=2), 'expected 2.8 tokens, got 3: "of the" held, then the target wanted "of"'),
        (example_round(accepted=0), 'expected 2.8 tokens, got 1: no draft held, the target wanted "of"'),
        (CUT, 'expected 2.8 tokens, got 2: "of the" held, then the reply ended'),
        (UNKNOWN, 'got 4 tokens: "of the scattering" held to its end, and "of" came with it'),
        (
            replace(ROUND, tree=replace(TREE, sizing=SizingRecord(2.4, 17.0, 11.0))),
            'got 4 tokens: "of the scattering" held to its end, and "of" came with it',
        ),
        (RESTED, ""),
        (example_plain(), "the target's own: nothing was drafted in this round"),
        (example_prefill(), "the reply's first token: reading the prompt gives it"),
    ],
)
def test_the_round_in_one_line(record: RoundRecord, words: str) -> None:
    """Two different expectations side by side, a path that is not the accepted one, a lost ending."""
    assert row_text(round_line(record, 100)).strip() == words


def test_expected_counts_kept_drafts_and_the_sure_token() -> None:
    """The root counted as a draft, or the token that every round gives left out."""
    assert expected_tokens(ROUND) == pytest.approx(
        1 + 0.62 + 0.21 + 0.62 * (0.48 + 0.35) + 0.21 * 0.55 + 0.62 * 0.35 * (0.51 + 0.22) + 0.62 * 0.48 * 0.6
    )


def test_numbers_of_a_node() -> None:
    """A token without its space, a probability of another node, numbers for what was never asked."""
    assert [row_text(row) for row in inspected(ROUND, 3, 100)] == [
        ' ○"␣a"   confidence 48 %   target 30 %   value -1.21   id 103',
        ' rejected: after "of" the target took "the" instead (52 % against 30 %)',
    ]
    first = [row_text(inspected(ROUND, node, 100)[0]) for node in (0, 9, 12)]
    assert first[0] == ' ◆"␣because"   id 100'
    assert first[1] == ' ◌"␣it"   confidence 5 %   the target was not asked   value -3.00   id 9001'
    assert first[2] == ' ★"␣of"   target 66 %   id 99'
    assert "confidence unknown   target unknown   id 103" in row_text(inspected(UNKNOWN, 3, 100)[0])
    assert "confidence 20 %" in row_text(inspected(MISSED, 10, 100)[0])


def test_the_verdict_stays_hidden() -> None:
    """Step mode must not give the verdict away in words either."""
    rows = [row_text(row) for row in inspected(ROUND, 4, 80, sight=DRAFTED)]
    assert rows[0].startswith(' ○"␣the"')
    assert "target unknown" in rows[0]
    assert rows[1] == " the target has not looked at the tree yet"


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("width", [30, 60, 80])
def test_any_node_of_any_round(seed: int, width: int) -> None:
    """A crash, a row over the edge, a character that an ASCII terminal lacks, an unknown role."""
    record = random_round(3 + 2 * seed, seed)
    for ascii_only in (False, True):
        for node in range(own_token(record) + 1):
            rows = [*inspected(record, node, width, ascii_only), round_line(record, width, ascii_only)]
            assert 2 <= len(rows) <= 4
            assert all(row_width(row) <= width for row in rows)
            assert all(role in ROLES for row in rows for _, role in row)
            assert not ascii_only or all(row_text(row).isascii() for row in rows)


def test_published_size_fits() -> None:
    """At 80 columns the reason must not lose its end."""
    record = example_round_60()
    for node in range(own_token(record) + 1):
        words = " ".join(row_text(row).strip() for row in inspected(record, node, 80)[1:])
        assert words == explain(record, node)
    assert next_node([], None, 1) is None


def with_noise(record: RoundRecord) -> RoundRecord:
    """The same round drawn at a temperature above 0."""
    noise = (None, 0.5, 0.1, 0.2, 1.5, None, 2.0, 0.3, None)
    return replace(record, tree=replace(record.tree, noise=noise), bonus_noise=3.0)


def test_what_the_noise_decided() -> None:
    """At temperature above 0 percentages alone do not say why a token won, and a score from nowhere lies."""
    noisy = with_noise(ROUND)
    assert "score 0.85, log p + noise, was the highest" in explain(noisy, 4)  # log 0.52 + 1.5
    assert "(score 0.85 against -1.00: log p + noise)" in explain(noisy, 3)  # log 0.30 + 0.2
    assert "noise +1.50   score 0.85" in row_text(inspected(noisy, 4, 120)[0])
    assert "noise +3.00   score 2.58" in row_text(inspected(noisy, own_token(noisy), 120)[0])
    for unasked in (5, 9):
        assert "noise" not in row_text(inspected(noisy, unasked, 120)[0])
    assert "noise" not in row_text(inspected(noisy, 4, 120, sight=DRAFTED)[0])


def test_a_filtered_token_has_no_score() -> None:
    """The logarithm of nothing ends the program."""
    noisy = with_noise(ROUND)
    filtered = replace(noisy, tree=replace(noisy.tree, target=(1.0, 0.7, 0.3, 0.0, *noisy.tree.target[4:])))
    assert "against ruled out" in explain(filtered, 3)


def test_what_a_chain_would_have_given() -> None:
    """The reason for a tree, told where a chain had done as well, or with another count."""
    assert row_text(chain_line(ROUND, 120)) == (  # the second token was the drafter's second choice
        " a chain of the drafter's first choices would have got 2 tokens, the tree got 4"
    )
    assert chain_line(TO_THE_END, 120) == []
    for record in (CUT, example_plain(), example_prefill(), verdict(7, TREE, (0,), b" it")):
        assert chain_line(record, 120) == []
    assert row_width(chain_line(ROUND, 30)) <= 30
