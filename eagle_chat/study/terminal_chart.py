"""A panel as rows of a terminal: lines in dots, eight to a cell, and marks over them; or all in ASCII."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from eagle_chat.layout.tokens import truncate
from eagle_chat.study.chart import Panel, ticks_between

MARKS = ("●○", "◆◇", "■□", "▲△")  # of a series: with many samples, with few
ASCII_MARKS = ("Oo", "Xx", "Hh", "Aa")
STYLES = ("cyan", "yellow", "magenta", "green")
FRAME = "bright_black"
BRAILLE = 0x2800
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # by column, then row of a cell
AROUND = 3  # rows of a panel that are not its plot: title, axis, labels
SPELLED = str.maketrans({"τ": "tau", "·": "-", "–": "-", "×": "x"})


def spelled(text: str, ascii_only: bool) -> str:
    """As it is, or in ASCII."""
    return text.translate(SPELLED) if ascii_only else text


def mark_of(place: int, few: bool, ascii_only: bool) -> str:
    """How the series at that place is marked."""
    marks = ASCII_MARKS if ascii_only else MARKS
    return marks[place % len(marks)][few]


def style_of(place: int) -> str:
    """And in which colour."""
    return STYLES[place % len(STYLES)]


class Canvas:
    """A plot of `width` by `height` cells; places are shares from the left and from below."""

    def __init__(self, width: int, height: int, ascii_only: bool) -> None:
        self.width, self.height, self._ascii_only = width, height, ascii_only
        self._dots: dict[tuple[int, int], int] = {}
        self._cells: dict[tuple[int, int], tuple[str, str]] = {}  # (row, column): what is there, its style

    def line(self, start: tuple[float, float], end: tuple[float, float], style: str) -> None:
        """Dots from place to place."""
        (x0, y0), (x1, y1) = self._dot(*start), self._dot(*end)
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for i in range(steps + 1):
            x, y = (round(a + (b - a) * i / steps) for a, b in ((x0, x1), (y0, y1)))
            self._put(x, y, "|" if x0 == x1 else ".", style)

    def mark(self, place: tuple[float, float], char: str, style: str) -> None:
        """A character over whatever is there."""
        x, y = self._dot(*place)
        self._cells[y // 4, x // 2] = char, style

    def rows(self) -> list[Text]:
        """From top to bottom."""
        rows = []
        for row in range(self.height):
            text = Text()
            for column in range(self.width):
                text.append(*self._cells.get((row, column), (" ", "")))
            rows.append(text)
        return rows

    def _dot(self, x: float, y: float) -> tuple[int, int]:
        """Column and row of the nearest dot, from the upper left."""
        across, down = 2 * self.width - 1, 4 * self.height - 1
        return min(max(round(x * across), 0), across), min(max(round((1 - y) * down), 0), down)

    def _put(self, x: int, y: int, ascii_char: str, style: str) -> None:
        cell = y // 4, x // 2
        self._dots[cell] = self._dots.get(cell, 0) | DOTS[x % 2][y % 4]
        self._cells[cell] = ascii_char if self._ascii_only else chr(BRAILLE + self._dots[cell]), style


def paint(panel: Panel, names: Sequence[str], width: int, height: int, ascii_only: bool) -> list[Text]:
    """`height` rows of `width` cells; `names` are those of all series of the figure."""
    (left, right), (low, high) = panel.across, panel.up
    place = panel.place
    labels = ticks_between(low, high, max(2, (height - AROUND) // 2))
    digits = 0 if all(value == int(value) for value in labels) else 2
    written = [f"{value:.{digits}f}" for value in labels]
    gutter = max(map(len, written), default=0) + 1
    canvas = Canvas(max(1, width - gutter - 2), max(1, height - AROUND), ascii_only)

    if panel.diagonal:
        canvas.line(place(left, left), place(right, right), FRAME)
    _draw(panel, names, canvas, ascii_only)
    at = {_row(canvas, place(left, value)[1]): text for value, text in zip(labels, written, strict=True)}
    edge, corner, floor = "|+-" if ascii_only else "│└─"
    rows = [Text(truncate(spelled(panel.title, ascii_only), width, ascii_only), style="bold")]
    for number, row in enumerate(canvas.rows()):
        rows.append(Text.assemble((f"{at.get(number, ''):>{gutter}}{edge}", FRAME), row))
    rows.append(Text(" " * gutter + corner + floor * canvas.width, style=FRAME))
    places = [(place(x, low)[0], spelled(text, ascii_only)) for x, text in panel.ticks]
    rows.append(Text(" " * (gutter + 1) + _below(places, canvas.width)))
    for row in rows:
        row.truncate(width, pad=True)
    return rows


def _draw(panel: Panel, names: Sequence[str], canvas: Canvas, ascii_only: bool) -> None:
    """Lines and intervals first, so that no mark is hidden."""
    place = panel.place
    for series in panel.series:
        style = style_of(names.index(series.name))
        for mark in series.marks:
            if mark.ends:
                canvas.line(place(mark.x, mark.ends[0]), place(mark.x, mark.ends[1]), style)
        for one, after in zip(series.marks, series.marks[1:], strict=False):
            if series.joined:
                canvas.line(place(one.x, one.y), place(after.x, after.y), style)
    for series in panel.series:
        number = names.index(series.name)
        for mark in series.marks:
            canvas.mark(place(mark.x, mark.y), mark_of(number, mark.few, ascii_only), style_of(number))


def _row(canvas: Canvas, share: float) -> int:
    return min(canvas.height - 1, max(0, round((1 - share) * (4 * canvas.height - 1)) // 4))


def _below(ticks: Sequence[tuple[float, str]], width: int) -> str:
    """The labels that fit below their places."""
    line = ""
    for share, text in ticks:
        start = min(round(share * (width - 1)) - cell_len(text) // 2, width - cell_len(text))
        start = max(start, 0)
        if not line or start > cell_len(line):
            line += " " * (start - cell_len(line)) + text
    return line
