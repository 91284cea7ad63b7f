"""A picture as cells, made when they are painted: a heading, rows that scroll under it, a foot."""

from collections.abc import Sequence

from rich.style import Style
from textual.geometry import Offset, Size
from textual.strip import Strip
from textual.widget import Widget

from eagle_chat.layout.cells import Cell
from eagle_chat.layout.rows import ROLES, Row
from eagle_chat.widgets.painting import reversed_at, role_styles, to_strip

HEADING, FOOT = -1, -2  # keys of the fixed rows; those of the foot count down


class DrawnRows:
    """Belongs to a widget with a component class for every role."""

    def __init__(self, widget: Widget, prefix: str) -> None:
        self.heading: Row = []
        self.rows: list[Row] = []
        self.foot: list[Row] = []
        self._widget = widget
        self._prefix = prefix
        self._strips: dict[int, Strip] = {}
        self._styles: dict[str, Style] = {}

    def replace(self, rows: list[Row], heading: Row | None = None, foot: Sequence[Row] = ()) -> None:
        """Another picture."""
        self.rows, self.heading, self.foot = rows, heading or [], list(foot)
        self._strips.clear()

    def head(self, heading: Row) -> None:
        """The same picture under another heading."""
        self.heading = heading
        self._strips.pop(HEADING, None)

    def restyle(self) -> None:
        """The theme is another one."""
        self._styles.clear()
        self._strips.clear()

    @property
    def above(self) -> int:
        """Rows that stay at the top."""
        return int(bool(self.heading))

    @property
    def fixed(self) -> int:
        """Rows that do not scroll."""
        return self.above + len(self.foot)

    def line(self, y: int, size: Size, scrolled: Offset, chosen: Cell | None) -> Strip:
        """What stands in line `y` of the widget, with the chosen cell in reverse video."""
        style = self._widget.rich_style
        foot = y - size.height + len(self.foot)
        if self.above and y == 0:
            return self._strip(HEADING, self.heading).crop_extend(0, size.width, style)
        if foot >= 0:
            return self._strip(FOOT - foot, self.foot[foot]).crop_extend(0, size.width, style)
        index = y - self.above + scrolled.y
        if not 0 <= index < len(self.rows):
            return Strip.blank(size.width, style)
        strip = self._strip(index, self.rows[index])
        if chosen is not None and chosen.row == index:
            strip = reversed_at(strip, chosen.x, chosen.width)
        return strip.crop_extend(scrolled.x, scrolled.x + size.width, style)

    def _strip(self, key: int, row: Row) -> Strip:
        if not self._styles:
            self._styles = role_styles(self._widget, self._prefix, ROLES)
        if key not in self._strips:
            self._strips[key] = to_strip(row, self._styles)
        return self._strips[key]
