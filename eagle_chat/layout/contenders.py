"""What a node stood against: what drafter and target said about the place after its parent."""

from dataclasses import dataclass

from rich.cells import cell_len

from eagle_chat.layout.rows import Row, clip, row_width
from eagle_chat.layout.states import (
    NodeState,
    bonus_text,
    confidences,
    marks,
    node_states,
    own_token,
    percent,
)
from eagle_chat.layout.tokens import fitted
from eagle_chat.phases import EVERYTHING, Sight
from eagle_chat.records import RoundRecord

NAME = 14  # cells of a token
BAR = 10  # cells of a bar for 100 %
NARROWEST = 60
MOST = 8  # contenders shown
FIXED = 2  # rows around them


@dataclass(frozen=True, slots=True)
class Contender:
    """A token for one place. None: that side did not draw it, or was not asked."""

    node: int  # numbered as in `layout.cells`
    text: bytes
    state: NodeState
    draft: float | None
    target: float | None


def contenders(record: RoundRecord, node: int, sight: Sight = EVERYTHING) -> list[Contender]:
    """Those after the parent of `node`, the drafter's favourite first; none for the root."""
    parent = _parent(record, node)
    if parent < 0:
        return []
    tree, kept, own = record.tree, len(record.tree.tokens), own_token(record)
    states, draft = node_states(record, sight.verdict), confidences(tree)
    found = [
        Contender(n, tree.texts[n], states[n], draft[n], tree.target[n] if tree.target else None)
        for n in range(1, kept)
        if tree.parents[n] == parent
    ]
    missed = None  # the drafter's probability of the target's own token, where it had drawn that
    for number, each in enumerate(tree.dropped, start=kept):
        if each.parent != parent:
            continue
        if sight.own and _is_own(record, parent) and each.token == record.new[-1]:
            missed = each.confidence
        else:
            found.append(Contender(number, each.text, NodeState.DROPPED, each.confidence, None))
    if sight.own and _is_own(record, parent):
        found.append(Contender(own, bonus_text(record) or b"", NodeState.BONUS, missed, record.bonus_target))
    return sorted(found, key=lambda each: -1 if each.draft is None else each.draft, reverse=True)


def table(
    record: RoundRecord,
    node: int,
    width: int,
    height: int = MOST + FIXED,
    ascii_only: bool = False,
    sight: Sight = EVERYTHING,
) -> list[Row]:
    """A heading, a row for each contender, and what the target gives to others; nothing without a contest."""
    found = contenders(record, node, sight)
    known = sorted((each.target for each in found if each.target is not None), reverse=True)
    most = min(MOST, height - FIXED)
    if width < NARROWEST or not sight.target or not known or min(most, len(found)) < 2:
        return []
    rest = max(0.0, 1 - sum(known))
    weightiest = sorted(found, key=lambda each: (each.node == node, each.target or 0), reverse=True)
    shown = [each for each in found if each in weightiest[:most]]
    parent = record.tree.texts[_parent(record, node)]
    after = f' after "{fitted(parent, NAME, ascii_only)}"'
    heading = f"{after}{' ' * (NAME + 6 - cell_len(after))}{'drafter':<{BAR + 5}}{'target':<{BAR + 5}}rank"
    rows: list[Row] = [[(heading, "label")]]
    rows += [_row(each, known, rest, ascii_only, each.node == node) for each in shown]
    if rest >= 0.005:
        rows.append([(f" the target's other {100 * rest:.0f} % are for tokens that are not here", "label")])
    return [clip(row, width, ascii_only) for row in rows]


def _row(each: Contender, known: list[float], rest: float, ascii_only: bool, chosen: bool) -> Row:
    name = f"{marks(ascii_only)[each.state]}{fitted(each.text, NAME, ascii_only)}"
    row: Row = [("  ", "label"), (name, each.state)]
    row.append((" " * (NAME + 6 - row_width(row)), "label"))
    for share in (each.draft, each.target):
        row += [(f"{percent(share)} ", "score"), (f"{_bar(share, ascii_only):<{BAR + 2}}", each.state)]
    if each.target is not None:
        sure = "" if each.target >= rest else "+"  # something unseen may come before it
        row.append((f"{known.index(each.target) + 1}{sure}", "score"))
    if chosen:
        row.append(("  <-" if ascii_only else "  ←", "label"))
    return row


def _bar(share: float | None, ascii_only: bool) -> str:
    return ("#" if ascii_only else "▇") * round(BAR * (share or 0))


def _parent(record: RoundRecord, node: int) -> int:
    tree, kept = record.tree, len(record.tree.tokens)
    if node == own_token(record):
        return record.path[-1]
    return tree.parents[node] if node < kept else tree.dropped[node - kept].parent


def _is_own(record: RoundRecord, parent: int) -> bool:
    """Whether the target's own token stands after it."""
    return record.bonus is not None and parent == record.path[-1]
