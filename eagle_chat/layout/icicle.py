"""The icicle: a node is as wide as the drafter thought it likely, its children hang below it.

Empty cells are probability that was not kept. Widths come from draft scores alone. What is too narrow is
counted at the end of its siblings as `+n`; an accepted node among them takes the place of that count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from eagle_chat.layout.cells import Cell, traced
from eagle_chat.layout.rows import Row, best_dropped, joined, notes, row_width
from eagle_chat.layout.states import (
    NodeState,
    bonus_text,
    by_score,
    confidences,
    marks,
    node_states,
    own_token,
    scores,
)
from eagle_chat.layout.tokens import fitted
from eagle_chat.phases import EVERYTHING, Sight
from eagle_chat.records import RoundRecord

MARGIN = 1
NARROWEST = 4  # cells of a node: its edge, its glyph and a beginning of its token
COUNT = 3  # cells for `+n`
NUMBERED = 12  # cells from which a node shows its numbers
SHORTEST = 4  # cells of a token beside them


@dataclass(frozen=True, slots=True)
class Share:
    """The cells that siblings get in their parent's, and the place of those that are too narrow."""

    widths: list[int]  # of the leading ones
    rest: int  # cells at the end of them, 0 where nothing is hidden


def share(width: int, likely: Sequence[float]) -> Share:
    """Divide `width` among siblings, the likeliest first; what they leave stays empty."""
    if not likely:
        return Share([], 0)
    if len(likely) > 1 and width < NARROWEST + COUNT:
        return Share([], width)
    ends = [min(width, round(width * sum(likely[: count + 1]))) for count in range(len(likely))]
    widths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    shown = next((order for order, cells in enumerate(widths) if cells < NARROWEST), len(widths))
    if shown == 0:
        shown, widths[0] = 1, min(NARROWEST, width)
    if shown == len(likely):
        return Share(widths, 0)
    while shown > 1 and sum(widths[:shown]) + COUNT > width:
        shown -= 1
    widths[0] = min(widths[0], width - COUNT)
    used = sum(widths[:shown])
    return Share(widths[:shown], min(width - used, max(COUNT, ends[-1] - used)))


def layout(record: RoundRecord, width: int, ascii_only: bool = False, sight: Sight = EVERYTHING) -> list[Row]:
    """A row for every depth, one for the target's own token, then what was not kept: any height."""
    pen = _Pen(record, width, ascii_only, sight)
    return [*(joined(pieces) for pieces in pen.rows), *notes(record, width, ascii_only, sight)]


def cells(record: RoundRecord, width: int, ascii_only: bool = False, sight: Sight = EVERYTHING) -> list[Cell]:
    """Where the nodes of that picture stand."""
    pen = _Pen(record, width, ascii_only, sight)
    found = pen.cells
    for y, row in enumerate(notes(record, width, ascii_only, sight), start=len(pen.rows)):
        found += traced(row, y, best_dropped(record), frozenset({NodeState.DROPPED}))
    return found


class _Pen:
    """Draws one round."""

    def __init__(self, record: RoundRecord, width: int, ascii_only: bool, sight: Sight) -> None:
        self.record = record
        self.ascii_only = ascii_only
        self.sight = sight
        self.marks = marks(ascii_only)
        self.states = node_states(record, sight.verdict)
        self.confidences = confidences(record.tree)
        self.children = [by_score(record.tree, nodes) for nodes in record.tree.children()]
        self.accepted = frozenset(record.path) if sight.verdict else frozenset[int]()
        self.cells: list[Cell] = []
        self.rows: list[list[tuple[int, str, str]]] = [[] for _ in range(max(record.tree.depths()) + 2)]
        self._node(0, 0, MARGIN, width - 2 * MARGIN)
        if sight.own and record.bonus is not None:
            self._own(width)

    def _node(self, node: int, row: int, x: int, width: int) -> None:
        """A node and all below it, as far as it is drafted; what is missing keeps its place."""
        self._draw(node, row, x, width)
        children = self.children[node]
        if self.sight.levels is not None and row >= self.sight.levels:
            return
        likely = [self.confidences[child] for child in children]
        known = [1 / len(children) if each is None else each for each in likely]
        room = share(width, known)
        below = row + 1
        for child, cells in zip(children, room.widths, strict=False):
            self._node(child, below, x, cells)
            x += cells
        hidden = children[len(room.widths) :]
        if hidden:
            self._rest(hidden, below, x, room.rest)

    def _rest(self, hidden: list[int], row: int, x: int, width: int) -> None:
        """What is too narrow, as a count; the accepted one of them as a node."""
        accepted = next((node for node in hidden if node in self.accepted), None)
        count = sum(self._below(node) for node in hidden)
        if accepted is not None:
            count -= self._below(accepted)
            text = f"+{count}" if count else ""
            cells = width - len(text) if width - len(text) >= NARROWEST else width
            self._node(accepted, row, x, cells)
            x, width = x + cells, width - cells
        if count and width:
            text = f"+{count}"
            self.rows[row].append((x, text if len(text) <= width else "+", "label"))

    def _below(self, node: int) -> int:
        """A node and how many it has below it."""
        return 1 + sum(self._below(child) for child in self.children[node])

    def _draw(self, node: int, row: int, x: int, width: int) -> None:
        tree, state = self.record.tree, self.states[node]
        self.cells.append(Cell(row, x, width, node))
        numbers = ""
        if node and width >= NUMBERED:
            target = tree.target[node] if tree.target is not None and self.sight.target else None
            numbers = f" {scores(self.confidences[node], target)}"
        if node:
            heavy = node in self.accepted
            edge = ("#" if heavy else "|") if self.ascii_only else "▐" if heavy else "▏"
            self.rows[row].append((x, edge, "edge-accepted" if heavy else "edge"))
            x, width = x + 1, width - 1
        mark = self.marks[state]
        if len(mark) + SHORTEST > width:
            mark = mark.rstrip()
        # the last cell stays free, or the next edge would stand in the word
        room = max(0, width - len(mark) - len(numbers) - (width > NARROWEST))
        text = mark[:width] + fitted(tree.texts[node], room, self.ascii_only)
        self.rows[row].append((x, text, state))
        if numbers:
            muted = state if state == NodeState.UNREACHABLE else "score"
            self.rows[row].append((x + cell_len(text), numbers, muted))

    def _own(self, width: int) -> None:
        """The target's own token was not drafted, so it has no width: it takes the last row."""
        record, row = self.record, len(self.rows) - 1
        mark = self.marks[NodeState.BONUS]
        numbers = f" {scores(None, record.bonus_target)}"
        after = fitted(record.tree.texts[record.path[-1]], 16, self.ascii_only)
        words = f'  the target\'s own, after "{after}"'
        room = max(1, width - 2 * MARGIN - len(mark) - len(numbers))
        text = mark + fitted(bonus_text(record) or b"", min(24, room), self.ascii_only)
        pieces: Row = [(text, NodeState.BONUS), (numbers, "score")]
        self.cells.append(Cell(row, MARGIN, row_width(pieces), own_token(record)))
        if row_width(pieces) + cell_len(words) + 2 * MARGIN <= width:
            pieces.append((words, "label"))
        x = MARGIN
        for text, role in pieces:
            self.rows[row].append((x, text, role))
            x += cell_len(text)
