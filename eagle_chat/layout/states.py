"""What became of every node of a draft tree, written without colour: a glyph and two percentages."""

from collections.abc import Iterable
from enum import StrEnum
from math import exp

from eagle_chat.records import RoundRecord, TreeRecord

UNKNOWN = "--"


class NodeState(StrEnum):
    """The fate of a node; the value is also the role its text is drawn in."""

    ROOT = "root"  # the last committed token
    ACCEPTED = "accepted"
    REJECTED = "rejected"  # the target was asked here and chose something else
    UNREACHABLE = "unreachable"  # verified, but the walk never came to its parent
    BONUS = "bonus"  # the target's own token
    DROPPED = "dropped"  # drawn and given children, then not kept
    PENDING = "pending"  # drafted, the verdict not shown yet


GLYPHS = {
    NodeState.ROOT: "◆",
    NodeState.ACCEPTED: "●",
    NodeState.REJECTED: "○",
    NodeState.UNREACHABLE: "·",
    NodeState.BONUS: "★",
    NodeState.DROPPED: "◌",
    NodeState.PENDING: "○",
}
ASCII_GLYPHS = {
    NodeState.ROOT: "@",
    NodeState.ACCEPTED: "*",
    NodeState.REJECTED: "o",
    NodeState.UNREACHABLE: ".",
    NodeState.BONUS: "$",
    NodeState.DROPPED: "~",
    NodeState.PENDING: "o",
}


def node_states(record: RoundRecord, verified: bool = True) -> list[NodeState]:
    """State of every kept node. Where the cut fell before the bonus, nothing below the path was decided."""
    nodes = len(record.tree.tokens)
    if not verified:
        return [NodeState.ROOT] + [NodeState.PENDING] * (nodes - 1)
    path = frozenset(record.path)
    asked = path if record.bonus is not None else path - {record.path[-1]}
    states = [NodeState.ROOT]
    for node, parent in enumerate(record.tree.parents[1:], start=1):
        if node in path:
            states.append(NodeState.ACCEPTED)
        else:
            states.append(NodeState.REJECTED if parent in asked else NodeState.UNREACHABLE)
    return states


def marks(ascii_only: bool) -> dict[NodeState, str]:
    """What stands before a token: a glyph, with a space where it would otherwise read as a letter."""
    return {state: f"{glyph} " for state, glyph in ASCII_GLYPHS.items()} if ascii_only else GLYPHS


def percent(probability: float | None) -> str:
    """A probability in exactly two characters, so that columns of them line up."""
    return UNKNOWN if probability is None else f"{max(0, min(99, round(100 * probability))):02d}"


def scores(draft: float | None, target: float | None) -> str:
    """Draft and target probability as `nn/mm`."""
    return f"{percent(draft)}/{percent(target)}"


def confidences(tree: TreeRecord) -> list[float | None]:
    """The drafter's probability of every node given its parent; unknown for the root."""
    if tree.values is None:
        return [None] * len(tree.tokens)
    values = tree.values
    return [None] + [exp(values[i] - values[tree.parents[i]]) for i in range(1, len(values))]


def by_score(tree: TreeRecord, nodes: Iterable[int]) -> list[int]:
    """Nodes in the drafter's own order: best value first, creation order where equal or unknown."""
    if tree.values is None:
        return sorted(nodes)
    values = tree.values
    return sorted(nodes, key=lambda node: (-values[node], node))


def bonus_text(record: RoundRecord) -> bytes | None:
    """Bytes of the target's own token; None when the cut removed it."""
    return None if record.bonus is None else record.texts[record.bonus]


def own_token(record: RoundRecord) -> int:
    """The number of the target's own token: it comes after the kept nodes and the dropped ones."""
    return len(record.tree.tokens) + len(record.tree.dropped)
