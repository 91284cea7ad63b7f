"""The ladder: one row per decision of the target, the drafter's candidates in the drafter's own order.

It needs few rows whatever the tree, so it serves small terminals; nodes off the path become counts. Before
the verdict the rows are the same ones, so that nothing moves when it comes.
"""

from collections import Counter

from eagle_chat.layout.cells import Cell, traced
from eagle_chat.layout.rows import Row, best_dropped, clip, not_kept, row_text, row_width, why_this_size
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

LABEL = 3  # cells before the first candidate
NARROW, WIDE = 14, 18  # cells of one candidate, the space behind it included
COUNT = 4  # cells kept free for the `+n` at the end of a row


def layout(record: RoundRecord, width: int, ascii_only: bool = False, sight: Sight = EVERYTHING) -> list[Row]:
    """Rows of the ladder, none wider than `width`: one for each decision and up to four more."""
    rows, _ = _decisions(record, width, ascii_only, sight)
    return rows + _remainder(record, width, ascii_only, sight)


def cells(record: RoundRecord, width: int, ascii_only: bool = False, sight: Sight = EVERYTHING) -> list[Cell]:
    """Where the nodes of that picture stand."""
    rows, nodes = _decisions(record, width, ascii_only, sight)
    found = [cell for y, row in enumerate(rows) for cell in traced(row, y, nodes[y])]
    for y, row in enumerate(_remainder(record, width, ascii_only, sight), start=len(rows)):
        found += traced(row, y, best_dropped(record), frozenset({NodeState.DROPPED}))
    return found


def _decisions(
    record: RoundRecord, width: int, ascii_only: bool, sight: Sight
) -> tuple[list[Row], list[list[int]]]:
    """The root's row and one for each decision, and the nodes of each row from left to right."""
    tree = record.tree
    children = tree.children()
    asked = _asked(record)
    pen = _Cells(
        record, _pitch(width, max((len(children[node]) for node in asked), default=0)), ascii_only, sight
    )
    rows = [pen.root(width)]
    for step, node in enumerate(asked, start=1):
        own = step == len(record.path)  # the walk ended here: none of the candidates was the target's choice
        rows.append(pen.decision(step, by_score(tree, children[node]), own, width))
    return rows, pen.nodes


def _asked(record: RoundRecord) -> tuple[int, ...]:
    """Nodes at which the target was asked: all of the path, unless the cut fell before its last answer."""
    return record.path if record.bonus is not None else record.path[:-1]


def _pitch(width: int, candidates: int) -> int:
    """Cells per candidate: from the width alone, but wider where no row has many candidates."""
    room = width - LABEL - COUNT
    columns = max(1, room // WIDE, min(candidates + 1, room // NARROW))
    return max(8, min(WIDE, room // columns))


class _Cells:
    """Draws the candidates of one round in cells of one width, so that glyphs stand in columns."""

    def __init__(self, record: RoundRecord, pitch: int, ascii_only: bool, sight: Sight) -> None:
        self.record = record
        self.pitch = pitch
        self.ascii_only = ascii_only
        self.sight = sight
        self.states = node_states(record, sight.verdict)
        self.confidences = confidences(record.tree)
        self.marks = marks(ascii_only)
        self.nodes: list[list[int]] = []  # of every row drawn

    def root(self, width: int) -> Row:
        """The last committed token."""
        self.nodes.append([0])
        text = self.marks[NodeState.ROOT] + fitted(
            self.record.tree.texts[0], max(1, width - LABEL), self.ascii_only
        )
        return clip([(" ", "label"), (text, NodeState.ROOT)], width, self.ascii_only)

    def decision(self, step: int, candidates: list[int], own: bool, width: int) -> Row:
        """One row: the target's own token if the walk ended here, then as many candidates as fit.

        What is not to be seen yet leaves its place free.
        """
        drafted = bool(candidates) and (self.sight.levels is None or step <= self.sight.levels)
        if not drafted and not (own and self.sight.own):
            self.nodes.append([])
            return []
        row: Row = [(f"{step:>2} ", "label")]
        columns = max(1, (width - LABEL - COUNT) // self.pitch)
        if own:
            row += self._bonus() if self.sight.own else [(" " * self.pitch, "label")]
            columns -= 1
        visible, skipped = _selection(candidates, columns, self.record.path)
        self.nodes.append([own_token(self.record), *visible] if own and self.sight.own else visible)
        for node in visible:
            row += self._candidate(node, skipped if node == visible[-1] else 0)
        if hidden := len(candidates) - len(visible) - skipped:
            row.append((f"+{hidden}", "label"))
        return clip(row, width, self.ascii_only)

    def _bonus(self) -> Row:
        text = bonus_text(self.record) or b""
        return self._cell(NodeState.BONUS, text, scores(None, self.record.bonus_target))

    def _candidate(self, node: int, skipped: int) -> Row:
        tree = self.record.tree
        target = tree.target[node] if tree.target is not None and self.sight.target else None
        return self._cell(
            self.states[node], tree.texts[node], scores(self.confidences[node], target), skipped
        )

    def _cell(self, state: NodeState, data: bytes, numbers: str, skipped: int = 0) -> Row:
        before = f"+{skipped} " if skipped else ""
        room = self.pitch - 1 - len(self.marks[state]) - len(before)  # one space stays free at the end
        if room <= len(numbers) + 1:
            numbers = ""
        text = self.marks[state] + fitted(data, room - len(numbers) - bool(numbers), self.ascii_only)
        row: Row = [(before, "label"), (text, state), (f" {numbers}" if numbers else "", "score")]
        return [*row, (" " * (self.pitch - row_width(row)), "label")]


def _selection(candidates: list[int], columns: int, path: tuple[int, ...]) -> tuple[list[int], int]:
    """The candidates to show, always with the accepted one, and how many were left out before the last."""
    chosen = next((rank for rank, node in enumerate(candidates) if node in path), -1)
    if chosen < columns:
        return candidates[:columns], 0
    return [*candidates[: columns - 1], candidates[chosen]], chosen - columns + 1


def _remainder(record: RoundRecord, width: int, ascii_only: bool, sight: Sight) -> list[Row]:
    """What the ladder leaves out: kept nodes off the path by depth, then candidates that were not kept."""
    counts = _off_path(record)
    rows: list[Row] = [_counted(counts, ascii_only, sight)] if counts else []
    taken = row_width(_counted(counts, ascii_only, EVERYTHING))
    beside = not_kept(record, width - taken - 3, ascii_only) if rows else []
    if beside and not row_text(beside).endswith(("…", "~")):
        gap = " " * (taken - row_width(rows[0]) + 3)
        rows[0] += [(gap, "label"), *beside] if sight.dropped else []
    elif below := not_kept(record, width - 1, ascii_only):
        rows.append([(" ", "label"), *below] if sight.dropped else [])
    if why := why_this_size(record, width - 1, ascii_only):
        rows.append([(" ", "label"), *why])
    return [clip(row, width, ascii_only) for row in rows]


def _off_path(record: RoundRecord) -> Counter[int]:
    """Kept nodes that have no row of the ladder, by depth."""
    tree, drawn_here = record.tree, frozenset(_asked(record))
    pairs = zip(tree.depths()[1:], tree.parents[1:], strict=True)
    return Counter(depth for depth, parent in pairs if parent not in drawn_here)


def _counted(counts: Counter[int], ascii_only: bool, sight: Sight) -> Row:
    """Those of them that are drafted by now."""
    mark = marks(ascii_only)[NodeState.UNREACHABLE if sight.verdict else NodeState.PENDING]
    words = f" off-path {mark}" if sight.verdict else f" besides {mark}"
    drafted = [depth for depth in sorted(counts) if sight.levels is None or depth <= sight.levels]
    text = words + "".join(f"  d{depth} {counts[depth]}" for depth in drafted)
    return [(text, "unreachable")] if drafted else []
