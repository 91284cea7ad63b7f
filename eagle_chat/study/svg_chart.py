"""A figure as an SVG file: its panels, what the marks mean, and the notes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from textwrap import wrap
from xml.sax.saxutils import escape

from eagle_chat.study.chart import Drawing, Mark, Panel, ticks_between

PLOT_WIDTH, PLOT_HEIGHT = 360, 240
LEFT, TOP, GAP_ACROSS, GAP_DOWN = 60, 50, 80, 70
LINE = 18  # between rows of text
LETTER = 6.5  # of a character, about
COLOURS = ("#0b84a5", "#d95f02", "#6f4e7c", "#2e8b57")


def svg(drawing: Drawing, title: str) -> str:
    """The whole file; `title` says what was measured."""
    beside = min(drawing.beside, len(drawing.panels))
    down = ceil(len(drawing.panels) / beside)
    width = LEFT + beside * (PLOT_WIDTH + GAP_ACROSS)
    floor = TOP + down * (PLOT_HEIGHT + GAP_DOWN)
    said = [line for text in (title, *drawing.notes) for line in wrap(text, int((width - LEFT) / LETTER))]
    height = floor + LINE * (1 + len(said))
    names = drawing.names
    parts = [
        _panel(
            panel,
            names,
            LEFT + (number % beside) * (PLOT_WIDTH + GAP_ACROSS),
            TOP + (number // beside) * (PLOT_HEIGHT + GAP_DOWN),
        )
        for number, panel in enumerate(drawing.panels)
    ]
    notes = [_text(LEFT, floor + LINE * (1 + row), line) for row, line in enumerate(said)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}'
        f"{_legend(names, drawing.few, floor)}{''.join(notes)}</svg>\n"
    )


def _panel(panel: Panel, names: Sequence[str], x: float, y: float) -> str:
    def at(place: tuple[float, float]) -> tuple[float, float]:
        return x + PLOT_WIDTH * place[0], y + PLOT_HEIGHT * (1 - place[1])

    low, high = panel.up
    left, right = panel.across
    drawn = [_text(x, y - 14, panel.title, weight="bold")]
    for value in ticks_between(low, high, 6):
        _, level = at(panel.place(left, value))
        drawn.append(f'<path d="M{x} {level:.1f}h{PLOT_WIDTH}" stroke="#ddd"/>')
        drawn.append(_text(x - 6, level + 4, f"{value:.3g}", anchor="end"))
    taken = 0.0
    for value, text in panel.ticks:
        across, _ = at(panel.place(value, low))
        half = LETTER * (len(text) + 1) / 2
        if across - half >= taken:  # as many labels as there is room for
            drawn.append(_text(across, y + PLOT_HEIGHT + LINE, text, anchor="middle"))
            taken = across + half
    if panel.diagonal:
        drawn.append(_line([at(panel.place(end, end)) for end in (left, right)], "#999"))
    for series in panel.series:
        colour = COLOURS[names.index(series.name) % len(COLOURS)]
        places = [at(panel.place(mark.x, mark.y)) for mark in series.marks]
        if series.joined and places:
            drawn.append(_line(places, colour))
        drawn += [
            _mark(mark, place, [at(panel.place(mark.x, end))[1] for end in mark.ends or ()], colour)
            for mark, place in zip(series.marks, places, strict=True)
        ]
    return "".join(drawn)


def _mark(mark: Mark, place: tuple[float, float], ends: Sequence[float], colour: str) -> str:
    x, y = place
    interval = f'<path d="M{x:.1f} {ends[0]:.1f}V{ends[1]:.1f}" stroke="{colour}"/>' if ends else ""
    fill = "white" if mark.few else colour
    return f'{interval}<circle cx="{x:.1f}" cy="{y:.1f}" r="4" stroke="{colour}" fill="{fill}"/>'


def _line(places: Sequence[tuple[float, float]], colour: str) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-opacity="0.6"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
    )


def _legend(names: Sequence[str], few: str, y: float) -> str:
    drawn, x = [], float(LEFT)
    for place, name in enumerate(names):
        colour = COLOURS[place % len(COLOURS)]
        drawn.append(f'<circle cx="{x + 5:.1f}" cy="{y - 4:.1f}" r="4" fill="{colour}" stroke="{colour}"/>')
        drawn.append(_text(x + 14, y, name))
        x += 40 + LETTER * len(name)
    drawn.append(_text(x, y, f"hollow: {few}"))
    return "".join(drawn)
