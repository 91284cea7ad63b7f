"""Which node stands where in a picture, so that a cell can be pointed at. Asked for only when somebody does.

Nodes are numbered as `Dropped.parent` counts: kept ones, dropped ones, then the target's own token.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len

from eagle_chat.layout.rows import Row
from eagle_chat.layout.states import NodeState

STATES = frozenset(state.value for state in NodeState)


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """The cells of one node in one row; they sort as one reads."""

    row: int
    x: int
    width: int
    node: int


def traced(row: Row, y: int, nodes: Iterable[int], roles: frozenset[str] = STATES) -> list[Cell]:
    """Where the `nodes` of a row stand: each begins with a text in one of `roles`, numbers may follow."""
    cells: list[Cell] = []
    left = iter(nodes)
    x = 0
    for text, role in row:
        width = cell_len(text)
        if role in roles:
            if (node := next(left, None)) is None:
                break
            indent = len(text) - len(text.lstrip(" "))
            cells.append(Cell(y, x + indent, width - indent, node))
        elif role == "score" and cells and text:
            cells[-1] = Cell(y, cells[-1].x, x + width - cells[-1].x, cells[-1].node)
        x += width
    return cells


def cell_at(cells: Iterable[Cell], row: int, x: int) -> Cell | None:
    """What stands there."""
    return next((cell for cell in cells if cell.row == row and cell.x <= x < cell.x + cell.width), None)


def next_node(cells: list[Cell], node: int | None, step: int) -> int | None:
    """The node `step` places on as one reads; the first step goes to the drafter's best or to the end."""
    order = [cell.node for cell in sorted(cells)]
    if not order:
        return None
    if node not in order:
        return order[min(1, len(order) - 1)] if step > 0 else order[-1]
    return order[min(max(order.index(node) + step, 0), len(order) - 1)]
