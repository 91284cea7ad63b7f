"""The dendrogram: a sideways tree, x = depth, a parent beside its first child, heavy lines to the accepted.

Places come from draft scores alone, so that no verdict moves anything but this: the target's own token takes
a row of its own where the last accepted node has children. That row is kept free before the verdict.
"""

from dataclasses import dataclass

from rich.cells import cell_len

from eagle_chat.layout.cells import Cell, traced
from eagle_chat.layout.folding import Shown, fold
from eagle_chat.layout.rows import Row, best_dropped, clip, joined, not_kept, why_this_size
from eagle_chat.layout.states import NodeState, bonus_text, confidences, marks, node_states, scores
from eagle_chat.layout.tokens import fitted
from eagle_chat.phases import EVERYTHING, Sight
from eagle_chat.records import RoundRecord

MARGIN = 1
LOWEST_WITH_NOTES = 6  # rows
ROOT = 10  # cells of the root's column
NARROWEST, READABLE, NUMBERED, WIDEST = (
    6,
    9,
    13,
    20,
)  # cells of the other columns, the edge into the next included
EDGE = 2

LIGHT, HEAVY = 1, 2
FIRST = {  # weights of the line to the left, right and down; children start here
    (LIGHT, LIGHT, 0): "─",
    (HEAVY, HEAVY, 0): "━",
    (LIGHT, LIGHT, LIGHT): "┬",
    (HEAVY, HEAVY, LIGHT): "┯",
    (HEAVY, LIGHT, HEAVY): "┱",
}
NEXT = {  # up, right, down
    (LIGHT, LIGHT, LIGHT): "├",
    (LIGHT, LIGHT, 0): "└",
    (HEAVY, HEAVY, LIGHT): "┡",
    (HEAVY, HEAVY, 0): "┗",
    (HEAVY, LIGHT, HEAVY): "┠",
}
LINES = {LIGHT: "─", HEAVY: "━"}
DASHED = "┄"
TO_ASCII = str.maketrans("─━┬┯┱├└┡┗┠│┃┄", "-=++++`+`+||.")


@dataclass(frozen=True, slots=True)
class Placement:
    """Where every shown node stands; nodes are numbered as in `Shown`."""

    shown: Shown
    columns: list[int]  # first cell of every depth
    pitch: int
    at: dict[int, tuple[int, int]]  # depth and row
    height: int


def pitch(depth: int, width: int) -> int:
    """Cells of one level where `depth` levels and the target's own token behind them share `width`."""
    return min(WIDEST, (width - MARGIN - ROOT + EDGE) // (depth + 1))


def readable(depth: int, width: int) -> bool:
    """Whether trees of this depth have room for the beginning of every token."""
    return pitch(depth, width) >= READABLE


def width_needed(record: RoundRecord) -> int:
    """Cells of the narrowest picture; below it rows come out wider than asked for."""
    return MARGIN + ROOT + _levels(record) * NARROWEST - EDGE


def place(record: RoundRecord, width: int, height: int) -> Placement:
    """Columns, rows and folding of one tree."""
    levels = _levels(record)
    level = max(NARROWEST, pitch(levels - 1, width))
    shown = fold(record, height - 1, levels)
    at: dict[int, tuple[int, int]] = {}

    def settle(node: int, depth: int, row: int) -> int:
        """Place `node` and all below it; return the first free row."""
        at[node] = (depth, row)
        free = row + 1
        for order, child in enumerate(shown.children[node]):
            free = settle(child, depth + 1, free if order else row)
        return free

    rows = settle(0, 0, 0)
    columns = [MARGIN] + [MARGIN + ROOT + level * depth for depth in range(levels + 1)]
    return Placement(shown, columns, level, at, rows)


def layout(
    record: RoundRecord, width: int, height: int, ascii_only: bool = False, sight: Sight = EVERYTHING
) -> list[Row]:
    """Rows of the tree, and below it what was not kept and why it has its size: `height` at most.

    A tree too deep for `width` comes out wider; `width_needed` tells before.
    """
    pen, notes = _drawn(record, width, height, ascii_only, sight)
    for node in pen.placement.at:
        pen.node(node)
    return pen.rows() + notes


def cells(
    record: RoundRecord, width: int, height: int, ascii_only: bool = False, sight: Sight = EVERYTHING
) -> list[Cell]:
    """Where the nodes of that picture stand."""
    pen, notes = _drawn(record, width, height, ascii_only, sight)
    found = [cell for node in pen.placement.at for cell in pen.cells(node)]
    dropped = best_dropped(record, pen.placement.shown.dropped)
    for y, row in enumerate(notes, start=pen.placement.height):
        found += traced(row, y, dropped, frozenset({NodeState.DROPPED}))
    return found


def _drawn(
    record: RoundRecord, width: int, height: int, ascii_only: bool, sight: Sight
) -> tuple["_Pen", list[Row]]:
    """Everything placed and nothing drawn yet, and the rows below the tree."""
    why = why_this_size(record, width - MARGIN, ascii_only) if height >= LOWEST_WITH_NOTES else []
    summary = height >= LOWEST_WITH_NOTES and bool(not_kept(record, width, ascii_only))
    placement = place(record, width, max(2, height - summary - bool(why)))
    notes = [not_kept(record, width - MARGIN, ascii_only, placement.shown.dropped)] if summary else []
    notes += [why] if why else []
    rows = [clip([(" " * MARGIN, "label"), *note], width, ascii_only) for note in notes]
    return _Pen(record, placement, ascii_only, sight), rows if sight.dropped else [[] for _ in rows]


def _levels(record: RoundRecord) -> int:
    """Columns after the root's: the drafted depths and one more for the target's own token."""
    return max(record.tree.depths()) + 1


class _Pen:
    """Puts the pieces of a placed tree on rows, each at its cell."""

    def __init__(self, record: RoundRecord, placement: Placement, ascii_only: bool, sight: Sight) -> None:
        self.record = record
        self.placement = placement
        self.ascii_only = ascii_only
        self.sight = sight
        self.marks = marks(ascii_only)
        self.states = node_states(record, sight.verdict)
        self.confidences = confidences(record.tree)
        accepted = (*record.path, placement.shown.bonus) if sight.verdict else ()
        self.heavy = frozenset[int | None](accepted)
        self.pieces: list[list[tuple[int, str, str]]] = [[] for _ in range(placement.height)]

    def rows(self) -> list[Row]:
        """Everything drawn so far, from left to right with spaces between."""
        return [joined(pieces) for pieces in self.pieces]

    def node(self, node: int) -> None:
        """A node's own cell and the edges to its children."""
        if not self._visible(node):
            return
        depth, row = self.placement.at[node]
        end = self._cell(node, depth, row)
        children = [child for child in self.placement.shown.children[node] if self._visible(child)]
        if children:
            self._edges(children, end, self.placement.columns[depth + 1] - EDGE, row)

    def cells(self, node: int) -> list[Cell]:
        """Where a node stands, if it is shown."""
        if not self._visible(node):
            return []
        depth, row = self.placement.at[node]
        x = self.placement.columns[depth]
        return [Cell(row, x, self._cell(node, depth, row) - x, node)]

    def _visible(self, node: int) -> bool:
        if node == self.placement.shown.bonus:  # its place is kept free until then
            return self.sight.own
        return self.sight.levels is None or self.placement.at[node][0] <= self.sight.levels

    def _cell(self, node: int, depth: int, row: int) -> int:
        """Glyph, token, folded count and numbers; returns the first cell after them."""
        state, data, numbers = self._content(node)
        width = (self.placement.pitch if depth else ROOT) - EDGE
        if depth == 0 or width < NUMBERED - EDGE:
            numbers = ""
        room = width - len(self.marks[state]) - len(numbers)
        count = _folded_count(self.placement.shown.folded.get(node, 0), room)
        room -= len(count)
        muted = state if state in (NodeState.UNREACHABLE, NodeState.DROPPED) else "score"
        x = self.placement.columns[depth]
        for text, role in (
            (self.marks[state] + fitted(data, room, self.ascii_only), state),
            (count, "label"),
            (numbers, muted),
        ):
            if text:
                self._put(row, x, text, role)
                x += cell_len(text)
        return x

    def _content(self, node: int) -> tuple[NodeState, bytes, str]:
        tree = self.record.tree
        kept = len(tree.tokens)
        if node < kept:
            target = tree.target[node] if tree.target is not None and self.sight.target else None
            return self.states[node], tree.texts[node], f" {scores(self.confidences[node], target)}"
        if node == self.placement.shown.bonus:
            data = bonus_text(self.record) or b""
            return NodeState.BONUS, data, f" {scores(None, self.record.bonus_target)}"
        dropped = tree.dropped[node - kept]
        state = NodeState.DROPPED if self.sight.dropped else NodeState.PENDING
        return state, dropped.text, f" {scores(dropped.confidence, None)}"

    def _edges(self, children: list[int], start: int, x: int, row: int) -> None:
        """Lines from the end of a parent's cell, `start`, through the branching cell `x` to its children."""
        weights = [HEAVY if child in self.heavy else LIGHT for child in children]
        trunk = max(weights)
        to_first = max(weights[1:], default=0)
        line = DASHED if all(map(self._is_dropped, children)) else LINES[trunk]
        self._line(row, start, line * (x - start), trunk)
        branch = FIRST[trunk, weights[0], to_first]
        self._line(row, x, DASHED if line == DASHED and not to_first else branch, trunk)
        self._line(row, x + 1, self._tail(children[0], weights[0]), weights[0])
        above = row
        for order in range(1, len(children)):
            below = self.placement.at[children[order]][1]
            up = max(weights[order:])
            down = max(weights[order + 1 :], default=0)
            for between in range(above + 1, below):
                self._line(between, x, "┃" if up == HEAVY else "│", up)
            self._line(below, x, NEXT[up, weights[order], down], up)
            self._line(below, x + 1, self._tail(children[order], weights[order]), weights[order])
            above = below

    def _is_dropped(self, node: int) -> bool:
        candidate = node >= len(self.record.tree.tokens) and node != self.placement.shown.bonus
        return candidate and self.sight.dropped

    def _tail(self, child: int, weight: int) -> str:
        return DASHED if self._is_dropped(child) else LINES[weight]

    def _line(self, row: int, x: int, text: str, weight: int) -> None:
        self._put(
            row,
            x,
            text.translate(TO_ASCII) if self.ascii_only else text,
            "edge-accepted" if weight == HEAVY else "edge",
        )

    def _put(self, row: int, x: int, text: str, role: str) -> None:
        if text:
            self.pieces[row].append((x, text, role))


def _folded_count(folded: int, room: int) -> str:
    """`+n`, or only `+` where the number would leave too little of the token."""
    count = f"+{folded}" if folded else ""
    return count if room - len(count) >= 3 else count[:1]
