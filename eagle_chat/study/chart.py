"""What a figure shows, before anybody draws it: panels with marks, a table, and what to know about them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from eagle_chat.layout.calibration_strip import FEW

FEW_TESTED = f"fewer than {FEW} tested nodes"


@dataclass(frozen=True, slots=True)
class Mark:
    """A point, the interval around it where there is one, and whether few samples stand behind it."""

    x: float
    y: float
    ends: tuple[float, float] | None = None
    few: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """Marks of one kind; `joined` ones have lines between."""

    name: str
    marks: tuple[Mark, ...]
    joined: bool = True


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes. A logarithmic one has logarithms as places and says otherwise in its `ticks`."""

    title: str  # what is drawn, by what
    series: tuple[Series, ...]
    ticks: tuple[tuple[float, str], ...]  # places along x, and what is written there
    y_range: tuple[float, float] | None = None  # None: as the marks have it
    diagonal: bool = False  # draw where x equals y

    @property
    def across(self) -> tuple[float, float]:
        """The range of x, with room for marks at its ends."""
        places = [place for place, _ in self.ticks]
        places += [mark.x for series in self.series for mark in series.marks]
        low, high = min(places, default=0.0), max(places, default=1.0)
        margin = 0.0 if self.diagonal else (high - low) / 16 or 0.5
        return low - margin, high + margin

    @property
    def up(self) -> tuple[float, float]:
        """The range of y, with room for marks at its ends."""
        if self.y_range:
            return self.y_range
        ends = [
            end for series in self.series for mark in series.marks for end in (mark.y, *(mark.ends or ()))
        ]
        low, high = min(ends, default=0.0), max(ends, default=1.0)
        margin = (high - low) / 10 or max(abs(high) / 10, 0.1)
        return low - margin, high + margin

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Shares of the plot's width, from the left, and of its height, from below."""
        (left, right), (low, high) = self.across, self.up
        return (x - left) / (right - left), (y - low) / (high - low)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A whole figure."""

    panels: tuple[Panel, ...]
    columns: tuple[str, ...]  # of the table
    rows: tuple[tuple[str, ...], ...]
    few: str  # what hollow marks stand for
    notes: tuple[str, ...] = ()
    beside: int = 2  # panels that stand side by side where there is room
    narrowest: int = 26  # cells that a panel needs for its labels

    @property
    def names(self) -> list[str]:
        """Those of all series, each once: its place says how it is marked."""
        return list(dict.fromkeys(series.name for panel in self.panels for series in panel.series))


def ticks_between(low: float, high: float, most: int) -> list[float]:
    """Round numbers from `low` to `high`, at most so many."""
    if most < 1 or high <= low:
        return []
    size = 10 ** math.floor(math.log10((high - low) / most))
    step = next(size * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (size * factor) < most)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float | None, digits: int = 2) -> str:
    """For a cell of a table."""
    return "–" if value is None else f"{value:.{digits}f}"


def share(part: float, of: int) -> str:
    """A share with a tilde where few stand behind it."""
    return f"{'~' if of < FEW else ''}{part / of:.2f}" if of else "–"


def counted(count: int, noun: str) -> str:
    """`1 question`, `2 questions`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
