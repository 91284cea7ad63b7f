"""The outline: a row for every node, its numbers and its end in words, guides to its parent.

Rows come in the drafter's order. The target's own token stands behind the last accepted node, so that the
verdict moves nothing.
"""

from eagle_chat.layout.cells import Cell, traced
from eagle_chat.layout.rows import Row, best_dropped, clip, notes
from eagle_chat.layout.states import (
    NodeState,
    bonus_text,
    by_score,
    confidences,
    marks,
    node_states,
    own_token,
    percent,
)
from eagle_chat.layout.tokens import fitted
from eagle_chat.phases import EVERYTHING, Sight
from eagle_chat.records import RoundRecord

LONGEST = 20  # cells of a token
GUIDES = {False: ("├─ ", "└─ ", "│  ", "   "), True: ("|- ", "`- ", "|  ", "   ")}
HEAVY = {False: ("┡━ ", "┗━ "), True: ("|= ", "`= ")}  # to an accepted node
TOKENS = frozenset(state.value for state in NodeState)


def layout(record: RoundRecord, width: int, ascii_only: bool = False, sight: Sight = EVERYTHING) -> list[Row]:
    """A row for every node, then what was not kept: any height, none wider than `width`."""
    rows, _ = _drawn(record, width, ascii_only, sight)
    return rows + notes(record, width, ascii_only, sight)


def cells(record: RoundRecord, width: int, ascii_only: bool = False, sight: Sight = EVERYTHING) -> list[Cell]:
    """Where the nodes of that picture stand."""
    rows, nodes = _drawn(record, width, ascii_only, sight)
    found = [cell for y, row in enumerate(rows) for cell in traced(row, y, nodes[y], TOKENS)]
    for y, row in enumerate(notes(record, width, ascii_only, sight), start=len(rows)):
        found += traced(row, y, best_dropped(record), frozenset({NodeState.DROPPED}))
    return found


def _drawn(
    record: RoundRecord, width: int, ascii_only: bool, sight: Sight
) -> tuple[list[Row], list[list[int]]]:
    """The rows, and the nodes of each from left to right."""
    tree, states, sure = record.tree, node_states(record, sight.verdict), confidences(record.tree)
    children = [by_score(tree, nodes) for nodes in tree.children()]
    depths = tree.depths()
    accepted = frozenset(record.path) if sight.verdict else frozenset[int]()
    rows: list[Row] = []
    nodes: list[list[int]] = []
    end = record.path[-1] if sight.own and record.bonus is not None else None

    def walk(node: int, before: Row, above: str) -> None:
        """Draw `node` behind its guide, then all below it behind `above`; what is not drafted is blank."""
        target = tree.target[node] if tree.target is not None and node and sight.target else None
        row = [*before, *_words(states[node], tree.texts[node], sure[node], target, ascii_only)]
        if node == end:
            row += _own(record, ascii_only)
        drafted = sight.levels is None or depths[node] <= sight.levels
        rows.append(clip(row, width, ascii_only) if drafted else [])
        nodes.append([node, own_token(record)] if node == end else [node])
        for order, child in enumerate(children[node]):
            last = order == len(children[node]) - 1
            guide = (HEAVY if child in accepted else GUIDES)[ascii_only][last]
            edge: Row = [(f" {above}", "edge"), (guide, "edge-accepted" if child in accepted else "edge")]
            walk(child, edge, above + GUIDES[ascii_only][2 + last])

    walk(0, [(" ", "edge")], "")
    return rows, nodes


def _words(state: NodeState, data: bytes, draft: float | None, target: float | None, ascii_only: bool) -> Row:
    """Glyph and token, both probabilities, the state."""
    text = marks(ascii_only)[state] + fitted(data, LONGEST, ascii_only)
    if state == NodeState.ROOT:
        return [(text, state)]
    numbers = f"  draft {percent(draft)}%" + ("" if target is None else f"  target {percent(target)}%")
    return [(text, state), (numbers, "label"), (f"  {state.value}", "label")]


def _own(record: RoundRecord, ascii_only: bool) -> Row:
    """The target's own token, behind the node it follows."""
    text = marks(ascii_only)[NodeState.BONUS] + fitted(bonus_text(record) or b"", LONGEST, ascii_only)
    return [
        ("  then ", "label"),
        (text, NodeState.BONUS),
        (f" target {percent(record.bonus_target)}%", "label"),
    ]
