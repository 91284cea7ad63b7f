"""The ladder as text."""

import random
from dataclasses import replace
from time import perf_counter

import pytest

from eagle_chat.layout import dendrogram, ladder
from eagle_chat.layout.rows import ROLES, heading, legend, row_text, row_width
from eagle_chat.layout.tokens import fitted
from eagle_chat.phases import DRAFTED
from eagle_chat.records import RoundRecord, SizingRecord
from tests.eagle_chat.examples import (
    example_plain,
    example_prefill,
    example_round,
    example_round_60,
    random_round,
    verdict,
)


def picture(rows: list) -> str:
    return "\n".join(row_text(row).rstrip() for row in rows)


def test_one_row_per_decision() -> None:
    """Rows out of step with the path, candidates out of the drafter's order, a lost or wrong mark."""
    assert picture(ladder.layout(example_round(), 80)) == (
        " ◆because\n"
        " 1 ●of 62/71         ○the 21/12\n"
        " 2 ○a 48/30          ●the 35/52\n"
        " 3 ●scattering 51/64 ○atmosphere 22/11\n"
        " 4 ★of --/66\n"
        " off-path ·  d2 1  d3 1   not kept: 28 drawn, 1 expanded  ◌it -3.0  ◌in -3.1"
    )


@pytest.mark.parametrize(
    ("record", "why", "words"),
    [
        (
            example_round(),
            "best",
            "expected 2.4 tokens in 17 ms, plain 1 in 11",
        ),
        (example_plain(), "best", "plain decoding is faster here: a token in 11 ms"),
        (example_plain(), "rest", "drafting was slower and rests: a token in 11 ms"),
        (example_plain(), "probe", "a plain round now and then shows what it takes: a token in 11 ms"),
    ],
)
def test_why_the_tree_has_its_size(record: RoundRecord, why: str, words: str) -> None:
    """A round that chose its size and does not say so, or names another reason."""
    tree = replace(record.tree, sizing=SizingRecord(2.41, 17.2, 10.9, why))
    record = replace(record, tree=tree)
    assert picture(ladder.layout(record, 80)).endswith(f" {words}")
    assert picture(dendrogram.layout(record, 80, 8)).endswith(f" {words}")
    assert len(dendrogram.layout(record, 80, 8)) <= 8
    assert all(row_width(row) <= 40 for row in ladder.layout(record, 40))


def test_ascii() -> None:
    """A terminal without these characters must still tell the states apart."""
    text = picture(ladder.layout(example_round(), 80, ascii_only=True))
    assert text.isascii()
    assert " 2 o a 48/30         * the 35/52" in text


def test_before_the_verdict() -> None:
    """Step mode must not give the verdict away, neither by glyph nor by the target's numbers."""
    text = picture(ladder.layout(example_round(), 80, sight=DRAFTED))
    assert "●" not in text
    assert "★" not in text
    assert "○of 62/--" in text


@pytest.mark.parametrize(
    ("record", "expected"),
    [(example_prefill(), " ◆⏎\n 1 ★The --/83"), (example_plain(), " ◆sky\n 1 ★is --/--")],
)
def test_nothing_drafted(record: object, expected: str) -> None:
    """Prefill and plain decoding have no candidates; they must not look like rejections or crash."""
    assert picture(ladder.layout(record, 80)) == expected


def test_cut_before_the_bonus() -> None:
    """After a stop token inside the tree nothing below it was decided, so nothing may be called rejected."""
    record = verdict(7, example_round().tree, (0, 1, 4), None)
    text = picture(ladder.layout(record, 80))
    assert "★" not in text
    assert "scattering" not in text


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("width", [20, 40, 60, 80, 99])
def test_random_trees(seed: int, width: int) -> None:
    """A row over the edge, a hidden accepted token, glyphs out of their columns."""
    record = random_round(random.Random(seed).randint(3, 60), seed)
    for ascii_only in (False, True):
        rows = ladder.layout(record, width, ascii_only)
        assert all(row_width(row) <= width for row in rows)
        assert all(role in ROLES for row in rows for _, role in row)
    roles = [role for row in ladder.layout(record, width) for _, role in row]
    assert roles.count("accepted") == record.accepted
    assert roles.count("bonus") == 1
    rows = ladder.layout(record, width)[1 : 2 + record.accepted]
    assert {row_text(row)[3] for row in rows} <= set("●○★+")


def test_accepted_far_down_the_list() -> None:
    """The target's choice is shown even where the drafter ranked it beyond the edge."""
    record = example_round_60()
    row = ladder.layout(record, 50)[1]
    assert "+2 ●中" in row_text(row)


def test_heading_and_legend_fit() -> None:
    """At 80 columns the longest usual heading must not lose its end; narrow ones stay whole sentences."""
    assert row_text(heading(example_round(), 80)) == (
        "── draft tree · round 7 · 36 drawn → 8 kept → 3 accepted + 1 bonus = 4 tokens ──"
    )
    for record in (example_round(), example_round_60(), example_prefill(), example_plain()):
        for width in (24, 40, 60, 80, 120, 200):
            assert row_width(heading(record, width)) == width
            assert row_width(legend(width)) <= width
    assert "1 token " in row_text(heading(example_plain(), 80))
    assert "◌" not in row_text(legend(200, ascii_only=True))


def test_unknown_probabilities() -> None:
    """Prompt lookup has none; inventing them would be a lie, and None arithmetic a crash."""
    record = example_round()
    record = replace(record, tree=replace(record.tree, values=None, target=None, dropped=()))
    assert "●of --/--" in picture(ladder.layout(record, 80))


def test_fast() -> None:
    """Layout time is taken from decoding; 60 nodes must stay far below a frame."""
    record = example_round_60()
    ladder.layout(record, 80)
    fitted.cache_clear()
    start = perf_counter()
    for _ in range(20):
        ladder.layout(record, 80)
    assert (perf_counter() - start) / 20 < 0.010
