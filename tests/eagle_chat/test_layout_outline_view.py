"""The outline in the panel as text, and what must hold for every tree."""

import pytest

from eagle_chat.layout import outline_view
from eagle_chat.layout.rows import ROLES, Row, row_text, row_width
from eagle_chat.layout.states import own_token
from eagle_chat.phases import DRAFTED
from tests.eagle_chat.examples import example_round, example_round_60, random_round


def picture(rows: list[Row]) -> str:
    return "\n".join(row_text(row).rstrip() for row in rows)


def test_small_tree() -> None:
    """The whole grammar: guides, heavy ones to the accepted, both numbers, the state in a word."""
    assert picture(outline_view.layout(example_round(), 100)) == (
        " ◆because\n"
        " ┡━ ●of  draft 62%  target 71%  accepted\n"
        " │  ├─ ○a  draft 48%  target 30%  rejected\n"
        " │  │  └─ ·process  draft 60%  target 81%  unreachable\n"
        " │  ┗━ ●the  draft 35%  target 52%  accepted\n"
        " │     ┡━ ●scattering  draft 51%  target 64%  accepted  then ★of target 66%\n"
        " │     └─ ○atmosphere  draft 22%  target 11%  rejected\n"
        " └─ ○the  draft 21%  target 12%  rejected\n"
        "    └─ ·way  draft 55%  target 40%  unreachable\n"
        " not kept: 28 drawn, 1 expanded  ◌it -3.0  ◌in -3.1  ◌light -3.5"
    )


def test_ascii() -> None:
    """Every guide and glyph needs a plain form."""
    assert picture(outline_view.layout(example_round_60(), 100, ascii_only=True)).isascii()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("width", [40, 80, 120])
def test_random_trees(seed: int, width: int) -> None:
    """Rows over the edge, a node without a row, a row that the verdict moves."""
    record = random_round(60, seed)
    rows = outline_view.layout(record, width)
    assert all(row_width(row) <= width for row in rows)
    assert all(role in ROLES for row in rows for _, role in row)
    placed = {cell.node: cell.row for cell in outline_view.cells(record, width)}
    assert set(range(61)) <= placed.keys()
    if width > 80:
        assert own_token(record) in placed
    before = {cell.node: cell.row for cell in outline_view.cells(record, width, sight=DRAFTED)}
    assert before.items() <= placed.items()
