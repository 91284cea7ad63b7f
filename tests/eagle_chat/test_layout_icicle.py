"""The icicle as text, and what must hold for every tree."""

from itertools import pairwise

import pytest

from eagle_chat.layout import icicle
from eagle_chat.layout.rows import ROLES, Row, row_text, row_width
from eagle_chat.layout.states import own_token
from eagle_chat.phases import DRAFTED, EVERYTHING
from tests.eagle_chat.examples import (
    example_plain,
    example_prefill,
    example_round,
    example_round_60,
    random_round,
)


def picture(rows: list[Row]) -> str:
    return "\n".join(row_text(row).rstrip() for row in rows)


def test_small_tree() -> None:
    """Widths that are not the drafter's probabilities, a child that is not below its parent."""
    assert picture(icicle.layout(example_round(), 120)) == (
        " ◆because\n"
        " ▐●of 62/71                                                               ▏○the 21/12\n"
        " ▏○a 48/30                          ▐●the 35/52                           ▏·way 55/40\n"
        " ▏·process 60/81                    ▐●sca… 51/64 ▏○at…\n"
        ' ★of --/66  the target\'s own, after "scattering"\n'
        " not kept: 28 drawn, 1 expanded  ◌it -3.0  ◌in -3.1  ◌light -3.5"
    )


@pytest.mark.parametrize(
    ("width", "likely", "expected"),
    [
        (100, [0.6, 0.2], icicle.Share([60, 20], 0)),  # a fifth was not kept and stays empty
        (100, [0.6, 0.3, 0.03, 0.02], icicle.Share([60, 30], 5)),
        (100, [0.02], icicle.Share([4], 0)),
        (20, [0.99, 0.01], icicle.Share([17], 3)),  # the count takes its cells from the likeliest
        (6, [0.5, 0.4], icicle.Share([], 6)),
        (2, [0.1], icicle.Share([2], 0)),
        (9, [], icicle.Share([], 0)),
    ],
)
def test_share(width: int, likely: list[float], expected: icicle.Share) -> None:
    """Siblings that are wider together than their parent, or a count without a place."""
    assert icicle.share(width, likely) == expected


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("width", [60, 81, 120, 200])
def test_random_trees(seed: int, width: int) -> None:
    """Rows over the edge, nodes over each other, a lost accepted node, a node that the verdict moves."""
    record = random_round(60, seed)
    for ascii_only in (False, True):
        rows = icicle.layout(record, width, ascii_only)
        assert all(row_width(row) <= width for row in rows)
        assert all(role in ROLES for row in rows for _, role in row)
        assert picture(rows).isascii() or not ascii_only
    cells = sorted(icicle.cells(record, width))
    for left, right in pairwise(cells):
        assert left.row < right.row or left.x + left.width <= right.x
    placed = {cell.node: cell for cell in cells}
    assert {*record.path, own_token(record)} <= placed.keys()
    before = {cell.node: cell for cell in icicle.cells(record, width, sight=DRAFTED)}
    assert before.items() <= placed.items()


@pytest.mark.parametrize("record", [example_round(), example_round_60(), example_prefill(), example_plain()])
def test_shown_and_counted_are_all(record) -> None:  # type: ignore[no-untyped-def]
    """A node that is neither drawn nor counted: the picture would call the tree smaller than it was."""
    pen = icicle._Pen(record, 120, ascii_only=False, sight=EVERYTHING)
    counts = [int(text) for row in pen.rows for _, text, role in row if role == "label" and text[0] == "+"]
    drawn = [cell for cell in pen.cells if cell.node < len(record.tree.tokens)]
    assert len(drawn) + sum(counts) == len(record.tree.tokens)
