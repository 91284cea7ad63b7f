"""What stands in the tree's place when a server drafts: how much it accepts, by depth, as far as it says."""

from textwrap import wrap

from eagle_chat.layout.rows import Row
from eagle_chat.records import Acceptance
from eagle_chat.server.statistics import ServerStatistics
from eagle_chat.server.words import UNSAID, counted, whose

TITLE = " acceptance by depth "
BEFORE = "A server does not show its draft trees. After each reply, what it says about them stands here."
MEANWHILE = "The server's counters are read at the end of a reply."
WHO_SAYS = (
    "vLLM says it on its metrics page, by depth; SGLang only τ, there (--enable-metrics); llama.cpp with "
    "each reply."
)
LONGEST_BAR = 60  # cells
BESIDE = 14  # cells of a row that are no bar


def layout(stats: ServerStatistics | None, width: int, height: int, ascii_only: bool) -> list[Row]:
    """Rows for the newest reply, or for none yet. They scroll where there are more than `height`."""
    rows = [_heading(width, ascii_only)]
    if stats is None or not stats.over:
        return rows + _words(BEFORE if stats is None else MEANWHILE, width, "label")
    if stats.acceptance is None:
        return (
            rows
            + _words(UNSAID, width, "accepted")
            + _words(WHO_SAYS.replace("τ", _tau(ascii_only)), width, "label")
        )
    rows += _words(counted(stats.acceptance, _tau(ascii_only)), width, "accepted")
    below = _words(f"{whose(stats.acceptance)}.", width, "label")
    bars = _bars(stats.acceptance, width, ascii_only)
    blank: list[Row] = [[]]
    if len(rows) + len(bars) + len(below) + 2 <= height:
        return [*rows, *blank, *bars, *blank, *below] if bars else [*rows, *below]
    return [*rows, *bars, *below]


def _bars(acceptance: Acceptance, width: int, ascii_only: bool) -> list[Row]:
    """A bar for each depth: the share of drafts that were accepted as far as there."""
    full, empty = ("#", ".") if ascii_only else ("█", "░")
    room = max(1, min(LONGEST_BAR, width - BESIDE))
    rows: list[Row] = []
    for depth, share in enumerate(acceptance.by_depth, start=1):
        cells = round(room * min(1.0, share))
        rows.append(
            [
                (f" d{depth:<3} ", "label"),
                (full * cells, "accepted"),
                (empty * (room - cells), "edge"),
                (f" {100 * share:3.0f} %", "score"),
            ]
        )
    return rows


def _heading(width: int, ascii_only: bool) -> Row:
    line = "-" if ascii_only else "─"
    return [(line * 2, "edge"), (TITLE, "heading"), (line * max(0, width - 2 - len(TITLE)), "edge")]


def _tau(ascii_only: bool) -> str:
    return "tau" if ascii_only else "τ"


def _words(text: str, width: int, role: str) -> list[Row]:
    return [[(f" {line}", role)] for line in wrap(text, max(10, width - 2))]
