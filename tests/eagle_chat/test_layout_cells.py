"""Which node stands where: the map of a picture must agree with the picture."""

import random

import pytest
from rich.cells import cell_len

from eagle_chat.layout import dendrogram, ladder
from eagle_chat.layout.cells import Cell, cell_at, next_node
from eagle_chat.layout.rows import Row, row_text
from eagle_chat.layout.states import marks, node_states, own_token
from eagle_chat.phases import phases, sight
from eagle_chat.records import RoundRecord
from tests.eagle_chat.examples import example_plain, example_prefill, example_round, random_round


def shown_at(rows: list[Row], cell: Cell) -> str:
    """What the picture has in those cells; for examples without wide characters."""
    return row_text(rows[cell.row])[cell.x : cell.x + cell.width]


def test_cells_of_the_example() -> None:
    """A click on a token that selects its neighbour; a cell with the gap or the edge in it."""
    record = example_round()
    rows, cells = ladder.layout(record, 80), ladder.cells(record, 80)
    assert {cell.node: shown_at(rows, cell) for cell in cells} == {
        0: "◆because", 1: "●of 62/71", 2: "○the 21/12", 3: "○a 48/30", 4: "●the 35/52",
        6: "●scattering 51/64", 7: "○atmosphere 22/11", 12: "★of --/66", 9: "◌it -3.0", 10: "◌in -3.1",
    }  # fmt: skip
    rows, cells = dendrogram.layout(record, 80, 20), dendrogram.cells(record, 80, 20)
    assert {cell.node: shown_at(rows, cell) for cell in cells} == {
        0: "◆because", 1: "●of 62/71", 2: "○the 21/12", 3: "○a 48/30", 4: "●the 35/52", 5: "·way 55/40",
        6: "●scatter… 51/64", 7: "○atmosph… 22/11", 8: "·process 60/81", 12: "★of --/66",
        10: "◌in 40/--", 9: "◌it -3.0", 11: "◌light -3.5",
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_cell_begins_with_its_glyph(seed: int, width: int) -> None:
    """A map that drifts from the picture: after a count, a wide character, before the verdict."""
    record = random_round(random.Random(seed).randint(3, 60), seed)
    for phase in (None, *phases(record)):
        seen = sight(phase)
        glyphs = [marks(False)[state] for state in node_states(record, seen.verdict)]
        drawings = [
            (ladder.layout(record, width, sight=seen), ladder.cells(record, width, sight=seen)),
            (
                dendrogram.layout(record, width, 25, sight=seen),
                dendrogram.cells(record, width, 25, sight=seen),
            ),
        ]
        for rows, cells in drawings:
            assert len({cell.node for cell in cells}) == len(cells)
            drafted = record.path if seen.levels is None else record.path[: 1 + seen.levels]
            assert set(drafted) <= {cell.node for cell in cells}
            for cell in cells:
                shown = text_from(rows[cell.row], cell.x)
                if cell.node == own_token(record):
                    assert shown.startswith("★")
                elif cell.node >= len(glyphs):
                    assert shown.startswith("◌" if seen.dropped else "○")
                else:
                    assert shown.startswith(glyphs[cell.node])


def text_from(row: Row, x: int) -> str:
    """The text from cell `x` on."""
    text = row_text(row)
    while x > 0:
        x -= cell_len(text[0])
        text = text[1:]
    return text.lstrip("\u200e")


@pytest.mark.parametrize("record", [example_prefill(), example_plain()])
def test_nothing_drafted(record: RoundRecord) -> None:
    """Root and own token are still there to be selected."""
    for cells in (ladder.cells(record, 80), dendrogram.cells(record, 80, 10)):
        assert [cell.node for cell in sorted(cells)] == [0, 1]


def test_pointing_and_stepping() -> None:
    """A click between tokens that hits one; a cursor that leaves the picture or does not read like text."""
    cells = ladder.cells(example_round(), 80)
    place = next(cell for cell in cells if cell.node == 4)
    assert cell_at(cells, place.row, place.x) == place
    assert cell_at(cells, place.row, place.x + place.width - 1) == place
    assert cell_at(cells, place.row, place.x + place.width) is None
    order = [next_node(cells, None, 1)]
    while order[-1] != (following := next_node(cells, order[-1], 1)):
        order.append(following)
    assert order == [1, 2, 3, 4, 6, 7, 12, 9, 10]
    assert next_node(cells, 0, -1) == 0
    assert next_node(cells, None, -1) == 10
