"""Rows of text in roles, and the lines around every view of a tree: heading, legend, what was not kept."""

from collections.abc import Iterable

from rich.cells import cell_len

from eagle_chat.layout.states import NodeState, marks
from eagle_chat.layout.tokens import fitted, truncate
from eagle_chat.phases import EVERYTHING, Sight
from eagle_chat.records import RoundRecord, SizingRecord

Segment = tuple[str, str]  # text, role
Row = list[Segment]

ROLES = (
    *(state.value for state in NodeState),
    "edge",  # lines between nodes
    "edge-accepted",  # the same along the accepted path
    "score",  # the two percentages
    "label",  # words that explain
    "heading",
)


def row_text(row: Row) -> str:
    """The row without its roles."""
    return "".join(text for text, _ in row)


def row_width(row: Row) -> int:
    """Cells that the row takes."""
    return sum(cell_len(text) for text, _ in row)


def clip(row: Row, width: int, ascii_only: bool = False) -> Row:
    """The row cut to `width` cells, the last text shortened with an ellipsis."""
    clipped: Row = []
    for text, role in row:
        cells = cell_len(text)
        if cells > width:
            clipped.append((truncate(text, width, ascii_only), role))
            break
        clipped.append((text, role))
        width -= cells
    return clipped


def fitting(parts: list[Row], width: int) -> Row:
    """The leading parts that fit whole into `width` cells, as one row."""
    row: Row = []
    for part in parts:
        width -= row_width(part)
        if width < 0:
            break
        row += part
    return row


def joined(pieces: Iterable[tuple[int, str, str]]) -> Row:
    """(cell, text, role) from left to right as one row, with spaces between."""
    row: Row = []
    end = 0
    for x, text, role in sorted(pieces):
        if x > end:
            row.append((" " * (x - end), "edge"))
        if row and row[-1][1] == role:
            row[-1] = (row[-1][0] + text, role)
        else:
            row.append((text, role))
        end = x + cell_len(text)
    return row


def notes(record: RoundRecord, width: int, ascii_only: bool = False, sight: Sight = EVERYTHING) -> list[Row]:
    """The rows below a tree: what was not kept and why it has its size, where there is something to say.

    Before the rerank the first is empty: what is kept is not known.
    """
    dropped, why = not_kept(record, width - 1, ascii_only), why_this_size(record, width - 1, ascii_only)
    rows = [clip([(" ", "label"), *row], width, ascii_only) for row in (dropped, why) if row]
    return rows if sight.dropped or not dropped else [[], *rows[1:]]


def heading(
    record: RoundRecord,
    width: int,
    ascii_only: bool = False,
    newest: int | None = None,
) -> Row:
    """`── draft tree · round 7 · 36 drawn → 8 kept → 3 accepted + 1 bonus = 4 tokens ──`, or shorter.

    `newest` is the round that has been reached, where the view is rewound to an earlier one.
    """
    dot, arrow = ("-", "->") if ascii_only else ("·", "→")
    titles = _titles(record, dot, arrow, newest)
    title = next((title for title in titles if cell_len(title) + 4 <= width), titles[-1])
    return ruled(title, width, ascii_only)


def ruled(title: str, width: int, ascii_only: bool = False) -> Row:
    """A title in a line of `width` cells."""
    line = "-" if ascii_only else "─"
    row = clip([(line * 2, "edge"), (f" {title} ", "heading")], width, ascii_only)
    return [*row, (line * (width - row_width(row)), "edge")]


def has_scores(row: Row) -> bool:
    """Whether probabilities stand in it as `nn/mm`."""
    return any(role == "score" and "/" in text for text, role in row)


def legend(width: int, ascii_only: bool = False, *, numbers: bool = True) -> Row:
    """What the glyphs and the `numbers` mean, as many words as fit."""
    mark = marks(ascii_only)
    words: list[tuple[str, str]] = [
        (f"{mark[NodeState.ACCEPTED]}accepted", "accepted"),
        (f"{mark[NodeState.REJECTED]}rejected", "rejected"),
        (f"{mark[NodeState.BONUS]}target's own", "bonus"),
        (f"{mark[NodeState.UNREACHABLE]}unreachable", "unreachable"),
        *([("nn/mm draft%/target%", "score")] if numbers else []),
        (f"{mark[NodeState.ROOT]}root", "root"),
        (f"{mark[NodeState.DROPPED]}drawn, not kept", "dropped"),
        ("+n folded", "label"),
    ]
    gap = "  " if width >= 110 else " "
    parts: list[Row] = [[(gap if order else " ", "label"), word] for order, word in enumerate(words)]
    return fitting(parts, width)


def not_kept(
    record: RoundRecord, width: int, ascii_only: bool = False, shown: frozenset[int] = frozenset()
) -> Row:
    """How many candidates were drawn and not kept, and the best of them that are not in the picture."""
    tree = record.tree
    summary = counted_dropped(record)
    if not summary:
        return []
    mark = marks(ascii_only)[NodeState.DROPPED]
    best = [tree.dropped[node - len(tree.tokens)] for node in best_dropped(record, shown)]
    parts: list[Row] = [
        [(f"  {mark}{fitted(node.text, 8, ascii_only)} {node.value:.1f}", "dropped")] for node in best
    ]
    return fitting([clip([(summary, "label")], width, ascii_only), *parts], width)


def counted_dropped(record: RoundRecord) -> str:
    """How many candidates were drawn and not kept; empty where all were."""
    tree = record.tree
    count = max(sum(tree.drawn) - tree.drafted, len(tree.dropped))
    expanded = sum(dropped.expanded for dropped in tree.dropped)
    return f"not kept: {count} drawn" + (f", {expanded} expanded" if expanded else "") if count else ""


def best_dropped(record: RoundRecord, shown: frozenset[int] = frozenset()) -> list[int]:
    """Numbers of the best candidates that are not in the picture, in the order `not_kept` names them."""
    tree = record.tree
    rest = [index for index in range(len(tree.dropped)) if index not in shown]
    best = sorted(rest, key=lambda index: -tree.dropped[index].value)[:8]
    return [len(tree.tokens) + index for index in best]


def why_this_size(record: RoundRecord, width: int, ascii_only: bool = False) -> Row:
    """What the tree was to give, or why there is none; nothing where its size is fixed."""
    tree = record.tree
    if tree.sizing is None:
        return []
    return clip([(_expected(tree.sizing, len(tree.tokens)), "label")], width, ascii_only)


def _expected(sizing: SizingRecord, rows: int) -> str:
    """Why a tree of so many rows."""
    plain = f"a token in {sizing.plain_ms:.0f} ms"
    if sizing.why == "rest":
        return f"drafting was slower and rests: {plain}"
    if sizing.why == "probe":
        return f"a plain round now and then shows what it takes: {plain}"
    if rows == 1:
        return f"plain decoding is faster here: {plain}"
    return f"expected {sizing.expected:.1f} tokens in {sizing.ms:.0f} ms, plain 1 in {sizing.plain_ms:.0f}"


def _titles(record: RoundRecord, dot: str, arrow: str, newest: int | None) -> list[str]:
    """What happened in this round, the longest wording first."""
    name = "draft tree"
    tokens = f"{len(record.new)} token" + "s" * (len(record.new) != 1)
    if newest is not None:
        return _rewound(record, dot, arrow, tokens, newest)
    if record.index == 0:
        return [f"{name} {dot} prefill {dot} the target's first token", f"prefill {dot} first token"]
    kept = len(record.tree.tokens) - 1
    this = f"round {record.index} {dot}"
    if kept == 0:
        return [f"{name} {dot} {this} nothing drafted {arrow} {tokens}", f"{this} {tokens}"]
    counts = f"{kept} kept {arrow}"
    if record.tree.drawn:
        found = f" + {record.tree.looked_up} looked up" if record.tree.looked_up else ""
        counts = f"{sum(record.tree.drawn)} drawn{found} {arrow} {counts}"
    sum_up = _sum_up(record, tokens)
    return [
        f"{name} {dot} {this} {counts} {sum_up}",
        f"{this} {counts} {sum_up}",
        *([f"{name} {dot} {this} {kept} kept {arrow} {sum_up}"] if record.tree.looked_up else []),
        f"{this} {sum_up}",
        f"{this} {tokens}",
    ]


def _sum_up(record: RoundRecord, tokens: str) -> str:
    """What was accepted, and `tokens` in all."""
    bonus = " + 1 bonus" if record.bonus is not None else ", cut"
    return f"{record.accepted} accepted{bonus} = {tokens}"


def _rewound(record: RoundRecord, dot: str, arrow: str, tokens: str, newest: int) -> list[str]:
    """The same of an earlier round; every wording says that it is one."""
    if record.index == 0:
        return [
            f"rewound {dot} prefill of {newest} rounds {dot} the target's first token",
            "rewound: prefill",
        ]
    this = f"rewound {dot} round {record.index} of {newest}"
    kept = len(record.tree.tokens) - 1
    if kept == 0:
        return [f"{this} {dot} nothing drafted {arrow} {tokens}", this]
    sum_up = _sum_up(record, tokens)
    return [
        f"{this} {dot} {kept} kept {arrow} {sum_up}",
        f"{this} {dot} {sum_up}",
        f"{this} {dot} {tokens}",
        this,
    ]
