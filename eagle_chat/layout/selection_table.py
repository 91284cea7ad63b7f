"""How the tree was chosen: what was drawn, kept and dropped at every depth, and where the cut fell."""

from collections import Counter

from eagle_chat.layout.rows import Row, fitting
from eagle_chat.records import RoundRecord, TreeRecord

NAME, COLUMN = 24, 5  # cells
NARROWEST = NAME + 3 * COLUMN


def table(record: RoundRecord, width: int) -> list[Row]:
    """A row of counts for each step of the drafter; nothing where the candidates are unknown."""
    tree = record.tree
    if not tree.drawn or width < NARROWEST:
        return []
    depths = range(1, len(tree.drawn) + 1)
    kept = Counter(tree.depths()[1 : 1 + tree.drafted])
    dropped = _expanded_and_dropped(tree)
    counts = [
        ("depth", "label", list(depths)),
        ("drawn", "score", list(tree.drawn)),
        ("kept", "accepted", [kept[depth] for depth in depths]),
        ("expanded, then dropped", "dropped", [dropped[depth] for depth in depths]),
    ]
    rows = [_row(name, role, numbers, width) for name, role, numbers in counts]
    if tree.cutoff is not None:
        place = f"the value of number {tree.drafted} of {sum(tree.drawn)}, the last one kept"
        cut: list[Row] = [
            [(f" {'cut-off':<{NAME - 1}}", "label"), (f"{tree.cutoff:>{COLUMN}.2f}", "score")],
            [(f"  {place}", "label")],
        ]
        rows.append(fitting(cut, width))
    return rows


def _row(name: str, role: str, numbers: list[int], width: int) -> Row:
    """Zeros are dots: the numbers stand out."""
    columns: list[Row] = [[(f"{number or '.':>{COLUMN}}", role)] for number in numbers]
    return fitting([[(f" {name:<{NAME - 1}}", "label")], *columns], width)


def _expanded_and_dropped(tree: TreeRecord) -> Counter[int]:
    """By depth: candidates that were given children and still fell to others."""
    depths = tree.depths()
    for each in tree.dropped:
        depths.append(depths[each.parent] + 1)
    return Counter(
        depth for each, depth in zip(tree.dropped, depths[len(tree.tokens) :], strict=True) if each.expanded
    )
