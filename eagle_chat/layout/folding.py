"""Which nodes a picture of limited height shows. Decided by draft scores; the verdict only adds nodes."""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from eagle_chat.layout.states import by_score, own_token
from eagle_chat.records import RoundRecord, TreeRecord


@dataclass(frozen=True, slots=True)
class Shown:
    """What is drawn. Numbers as `Dropped.parent` counts: kept nodes, dropped ones, the target's own token."""

    children: dict[int, list[int]]  # of every shown node, in drawing order
    folded: dict[int, int]  # hidden nodes below a shown one, where there are any
    dropped: frozenset[int]  # indices in `TreeRecord.dropped`
    bonus: int | None  # the number of the target's own token


def fold(record: RoundRecord, limit: int, deepest: int) -> Shown:
    """At most `limit` rows by draft score, one more for accepted nodes or for the target's own token."""
    tree = record.tree
    children = [by_score(tree, nodes) for nodes in tree.children()]
    hidden = _hidden(tree, children, limit)
    shown = {
        node: [child for child in nodes if child not in hidden]
        for node, nodes in enumerate(children)
        if node not in hidden
    }
    dropped = frozenset[int]() if hidden else _add_dropped(tree, shown, limit, deepest)
    for parent, node in zip(record.path, record.path[1:], strict=False):
        if node in hidden:
            hidden.discard(node)
            shown[node] = []
            # where it belongs by score, below whatever was drawn in its place
            shown[parent] = [child for child in children[parent] if child not in hidden]
    bonus = None
    if record.bonus is not None:
        bonus = own_token(record)
        shown[record.path[-1]].append(bonus)
        shown[bonus] = []
    return Shown(shown, _folded(tree, hidden), dropped, bonus)


def _hidden(tree: TreeRecord, children: list[list[int]], limit: int) -> set[int]:
    """Remove the leaf with the lowest score until the leaves, one row each, are few enough."""
    values = tree.values if tree.values is not None else [-float(node) for node in range(len(tree.tokens))]
    left = [len(nodes) for nodes in children]
    heap = [(values[node], -node) for node, count in enumerate(left) if count == 0]
    leaves = len(heap)
    heapify(heap)
    hidden: set[int] = set()
    while leaves > max(1, limit):
        node = -heappop(heap)[1]
        hidden.add(node)
        parent = tree.parents[node]
        left[parent] -= 1
        if left[parent]:
            leaves -= 1
        else:
            heappush(heap, (values[parent], -parent))
    for node in range(len(children)):  # parents first: a chain at the end of a row takes no row of its own
        if node not in hidden and left[node] == 0 and children[node]:
            left[node] = 1
            hidden.discard(children[node][0])
    return hidden


def _add_dropped(tree: TreeRecord, shown: dict[int, list[int]], limit: int, deepest: int) -> frozenset[int]:
    """Hang expanded but dropped candidates into the picture, best first, while there are rows."""
    kept = len(tree.tokens)
    depths = dict(enumerate(tree.depths()))
    rows = sum(not nodes for nodes in shown.values())
    added: set[int] = set()
    expanded = [index for index, dropped in enumerate(tree.dropped) if dropped.expanded]
    for index in sorted(expanded, key=lambda index: -tree.dropped[index].value):
        parent = tree.dropped[index].parent
        cost = 1 if shown.get(parent) else 0
        if parent not in shown or depths[parent] >= deepest or rows + cost > limit:
            continue
        rows += cost
        added.add(index)
        depths[kept + index] = depths[parent] + 1
        shown[parent].append(kept + index)
        shown[kept + index] = []
    return frozenset(added)


def _folded(tree: TreeRecord, hidden: set[int]) -> dict[int, int]:
    """Hidden nodes counted at the nearest ancestor that is shown."""
    folded: dict[int, int] = {}
    for node in hidden:
        ancestor = tree.parents[node]
        while ancestor in hidden:
            ancestor = tree.parents[ancestor]
        folded[ancestor] = folded.get(ancestor, 0) + 1
    return folded
