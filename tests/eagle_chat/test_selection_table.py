"""What was drawn, kept and dropped at every depth."""

from dataclasses import replace

import pytest

from eagle_chat.layout.picture import VIEWS, Picture
from eagle_chat.layout.rows import ROLES, counted_dropped, heading, row_text, row_width
from eagle_chat.layout.selection_table import table
from eagle_chat.layout.telling import sentence
from eagle_chat.phases import Phase, Stage
from eagle_chat.records import RoundRecord
from tests.eagle_chat.examples import example_plain, example_round, example_round_60


def test_small_tree() -> None:
    """Counts at the wrong depth: the node below a dropped one is one deeper than that."""
    tree = example_round().tree
    deeper = replace(tree.dropped[2], expanded=True)
    record = replace(
        example_round(), tree=replace(tree, dropped=(*tree.dropped[:2], deeper), drawn=(4, 16, 16, 4, 4))
    )
    assert [row_text(row) for row in table(record, 100)] == [
        " depth                      1    2    3    4    5",
        " drawn                      4   16   16    4    4",
        " kept                       2    3    3    .    .",
        " expanded, then dropped     .    .    .    1    1",
        " cut-off                -3.04  the value of number 8 of 44, the last one kept",
    ]


def test_what_was_looked_up_is_not_what_was_drawn() -> None:
    """Catches "6 drawn → 8 kept", and a cut-off at number 8 of 6: what the text gave was not drawn."""
    record = replace(example_round(), tree=replace(example_round().tree, looked_up=3))
    assert record.tree.drafted == 5
    rows = [row_text(row) for row in table(record, 100)]
    assert " kept                       2    3    ." in rows
    assert rows[-1].endswith("the value of number 5 of 36, the last one kept")
    assert counted_dropped(record).startswith("not kept: 31 drawn")
    assert " 36 drawn + 3 looked up → 8 kept → " in row_text(heading(record, 100))
    narrow = row_text(heading(record, 74))
    assert " 8 kept → " in narrow
    assert "drawn" not in narrow
    assert sentence(record, Phase(Stage.RERANK, 3)).startswith("Rerank: the best 5 of 36 go to the target")
    assert sentence(record, Phase(Stage.RERANK, 3)).endswith("31 dropped; 3 looked up beside them.")


@pytest.mark.parametrize("record", [example_round(), example_round_60(), example_plain()])
@pytest.mark.parametrize("width", [20, 40, 60, 120])
def test_fits(record: RoundRecord, width: int) -> None:
    """A row over the edge, an unknown role, or a table of nothing."""
    rows = table(record, width)
    assert all(row_width(row) <= width for row in rows)
    assert all(role in ROLES for row in rows for _, role in row)
    assert bool(rows) == (width >= 40 and bool(record.tree.drawn))


@pytest.mark.parametrize("view", VIEWS)
def test_only_where_there_is_room(view: str) -> None:
    """A table that pushes the tree or the words about a node off a small panel."""

    def shown(height: int) -> str:
        picture = Picture(example_round(), view, 100, height, ascii_only=False)  # type: ignore[arg-type]
        return "\n".join(map(row_text, picture.tree()))

    assert "expanded, then dropped" in shown(30)
    assert "expanded, then dropped" not in shown(15)
