"""A figure in the terminal: live while it is measured, and as the text that is left at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from eagle_chat.study.chart import Drawing
from eagle_chat.study.terminal_chart import mark_of, paint, spelled, style_of

LOWEST, HIGHEST = 8, 18  # rows of a panel
IN_A_PIPE = 100, 40  # cells and rows of a figure, where nobody knows
WIDE = 500  # columns for a table there, where nothing needs to be folded


def printed(drawing: Drawing, settings: str, ascii_only: bool) -> str:
    """The text for standard output: panels, table, notes, and how it was measured."""
    console = Console(highlight=False)
    width, rows = console.size
    if not console.is_terminal:
        console, (width, rows) = Console(highlight=False, width=WIDE), IN_A_PIPE
    down = -(-len(drawing.panels) // _beside(drawing, width))
    with console.capture() as capture:
        for line in panels(drawing, width, min(HIGHEST, max(LOWEST, rows // down - 2)), ascii_only):
            console.print(line, soft_wrap=True)
        for grid in tables(drawing, console.width, ascii_only):
            console.print(grid)
        for note in (*drawing.notes, settings):
            console.print(spelled(note, ascii_only), markup=False, soft_wrap=True)
    return capture.get()


def panels(drawing: Drawing, width: int, height: int, ascii_only: bool) -> list[Text]:
    """All of them, each `height` rows high, as many side by side as there is room for; then the legend."""
    names, beside = drawing.names, _beside(drawing, width)
    rows: list[Text] = []
    for first in range(0, len(drawing.panels), beside):
        together = [
            paint(panel, names, width // beside - 1, height, ascii_only)
            for panel in drawing.panels[first : first + beside]
        ]
        rows += [Text(" ").join(line) for line in zip(*together, strict=True)]
    return [*rows, _legend(drawing, ascii_only)]


def tables(drawing: Drawing, width: int, ascii_only: bool) -> list[Table]:
    """The numbers; where there are too many columns, the rest comes below, each part with the first one."""
    columns = [
        [spelled(cell, ascii_only) for cell in column]
        for column in zip(drawing.columns, *drawing.rows, strict=True)
    ]
    widths = [max(cell_len(line) for cell in column for line in cell.split("\n")) + 3 for column in columns]
    parts: list[list[int]] = [[]]
    for place in range(1, len(columns)):
        if parts[-1] and 1 + sum(widths[at] for at in (0, *parts[-1], place)) > width:
            parts.append([])
        parts[-1].append(place)
    return [_table([columns[at] for at in (0, *part)], ascii_only) for part in parts]


def _table(columns: list[list[str]], ascii_only: bool) -> Table:
    """All columns but the first are of numbers."""
    grid = Table(box=box.ASCII2 if ascii_only else box.HEAVY_HEAD)
    for place, (head, *_) in enumerate(columns):
        grid.add_column(Text(head), justify="right" if place else "left")
    for row in zip(*(cells for _, *cells in columns), strict=True):
        grid.add_row(*map(Text, row))
    return grid


def _beside(drawing: Drawing, width: int) -> int:
    return max(1, min(drawing.beside, len(drawing.panels), width // drawing.narrowest))


def _legend(drawing: Drawing, ascii_only: bool) -> Text:
    """What the marks mean."""
    text = Text()
    for place, name in enumerate(drawing.names):
        text.append(f" {mark_of(place, False, ascii_only)} ", style=style_of(place))
        text.append(f"{spelled(name, ascii_only)} ")
    return text.append(f" {mark_of(0, True, ascii_only)} {drawing.few}", style="dim")


@contextmanager
def live(
    console: Console, draw: Callable[[], Drawing], total: int, ascii_only: bool
) -> Iterator[Callable[[str], None]]:
    """Takes what was just done, and shows how far it is with the figure so far, where somebody looks.

    It is painted when it is told something and never between: no thread of its own runs beside the decoding.
    """
    if not console.is_terminal:
        yield lambda doing: None
        return
    began, done = time.monotonic(), 0
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as screen:

        def show(doing: str) -> None:
            nonlocal done
            done += 1
            left = (time.monotonic() - began) / done * (total - done)
            status = f"{spelled(doing, ascii_only)} - {done} of {total} replies, {_clock(left)} left"
            screen.update(_picture(draw(), status, console, ascii_only), refresh=True)

        screen.update(Text(f"0 of {total} replies"), refresh=True)
        yield show


def _picture(drawing: Drawing, status: str, console: Console, ascii_only: bool) -> RenderableType:
    """All that fits: the panels, then the numbers where there is room for them."""
    width, height = console.size
    down = -(-len(drawing.panels) // _beside(drawing, width))
    below = tables(drawing, width, ascii_only)
    under = (len(drawing.rows) + 5) * len(below)  # a heading may have two rows
    room = (height - 3 - under) // down
    whole = room >= LOWEST
    rows = min(HIGHEST, room if whole else max(LOWEST, (height - 3) // down))
    parts: list[RenderableType] = [Text(status), *panels(drawing, width, rows, ascii_only)]
    return Group(*parts, *(below if whole else []))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
