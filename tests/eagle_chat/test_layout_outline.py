"""The outline as text."""

import pytest

from eagle_chat.layout.outline import outline
from eagle_chat.records import RoundRecord, TreeRecord
from tests.eagle_chat.examples import (
    example_plain,
    example_prefill,
    example_round,
    example_round_60,
    random_round,
    verdict,
)

WHOLE = """\
round 7: 8 drafted, 3 accepted and the target's own token
0 "because" root, the last token of the text so far
  1 "of" accepted, draft 62 %, target 71 %
    2 "a" rejected, draft 48 %, target 30 %
      3 "process" never reached, draft 60 %, target 81 %
    2 "the" accepted, draft 35 %, target 52 %
      3 "scattering" accepted, draft 51 %, target 64 %
        4 "of" the target's own token, target 66 %
      3 "atmosphere" rejected, draft 22 %, target 11 %
  1 "the" rejected, draft 21 %, target 12 %
    2 "way" never reached, draft 55 %, target 40 %
not kept: 28 drawn, 1 expanded"""


def test_a_round_in_words() -> None:
    """Catches a node below the wrong parent, a state without a word, and numbers of another node."""
    assert "\n".join(outline(example_round())) == WHOLE


def test_rounds_that_drafted_nothing() -> None:
    """Catches sentences about drafts that there were none of."""
    assert outline(example_prefill()) == [
        "prefill: reading the prompt gives the first token",
        "0 newline root, the last token of the text so far",
        '  1 "The" the target\'s own token, target 83 %',
    ]
    assert outline(example_plain())[0] == "round 3: nothing drafted, the target's own token"


def test_before_the_verdict() -> None:
    """Catches an outline that tells what the target has not said yet."""
    lines = outline(example_round(), verified=False)
    assert lines[0] == "round 7: 8 drafted, not verified yet"
    assert lines[2] == '  1 "of" not verified yet, draft 62 %'
    assert not any("target" in line for line in lines)


def test_where_the_reply_was_cut() -> None:
    """Catches a bonus that the cut removed."""
    lines = outline(verdict(4, example_round().tree, (0, 1), None))
    assert lines[0] == "round 4: 8 drafted, 1 accepted, then the reply ended"
    assert not any("own" in line for line in lines)


def test_tokens_that_a_voice_would_leave_out() -> None:
    """Catches white space read as nothing, and characters that a terminal would obey."""
    tree = TreeRecord((1, 2, 3, 4), (b"a", b"\n\n", b" ", b"\x1b[2J"), (-1, 0, 1, 2))
    lines = outline(RoundRecord(1, (2,), (b"x",), tree, (0,), 0, None, 0, 1, 0))
    assert [line.strip().split(" ")[1] for line in lines[1:5]] == ['"a"', "newline", "space", '"‹1B›[2J"']


@pytest.mark.parametrize("seed", range(5))
def test_every_node_is_said_once(seed: int) -> None:
    """Catches lost nodes, and anything but letters and digits that an ASCII terminal cannot show."""
    for record in (example_round_60(), random_round(40, seed)):
        lines = outline(record, ascii_only=True)
        own = record.bonus is not None
        assert len(lines) == 1 + len(record.tree.tokens) + own + bool(record.tree.drawn)
        assert "\n".join(lines).isascii()
        assert sum(" accepted, " in line for line in lines[1:]) == record.accepted
