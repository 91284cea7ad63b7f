"""The speed gauge, painted line by line; what stands where is decided in `eagle_chat.layout.speed`."""

from typing import ClassVar

from rich.style import Style
from textual.reactive import var
from textual.strip import Strip
from textual.widget import Widget

from eagle_chat.layout import server_speed
from eagle_chat.layout.rows import Row
from eagle_chat.layout.speed import ROLES, Reading, layout
from eagle_chat.server.statistics import ServerStatistics
from eagle_chat.statistics import ReplyStatistics
from eagle_chat.widgets.painting import role_styles, to_strip

PREFIX = "gauge--"


class Gauge(Widget):
    """Tokens per second, tokens per round, acceptance and time of one reply."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {PREFIX + role for role in ROLES}
    DEFAULT_CSS = """
    Gauge {
        height: 4;

        & > .gauge--figure { color: $gauge-figure; text-style: bold; }
        & > .gauge--gain { color: $gauge-gain; text-style: bold; }
        & > .gauge--label { color: $gauge-label; }
        & > .gauge--value { color: $tree-rejected; }
        & > .gauge--strip { color: $gauge-strip; }
        & > .gauge--draft { color: $gauge-draft; }
        & > .gauge--verify { color: $gauge-verify; }
        & > .gauge--other { color: $gauge-other; }
        & > .gauge--edge { color: $tree-edge; }
        & > .gauge--heading { color: $tree-score; }

        &:nocolor, &:ansi {
            & > .gauge--label { text-style: dim; }
            & > .gauge--edge { text-style: dim; }
        }
    }
    """

    ascii_only: var[bool] = var(False)

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.set_reactive(Gauge.ascii_only, ascii_only)
        self._reading = Reading(ReplyStatistics())
        self._rows: list[Row] | None = None
        self._styles: dict[str, Style] = {}

    def show(self, reading: Reading) -> None:
        """Draw these figures; call again after the statistics in them have changed."""
        self._reading = reading
        self._redraw()

    def on_mount(self) -> None:
        self.ascii_only = self.ascii_only or getattr(self.app, "ascii_only", False)

    def watch_ascii_only(self) -> None:
        self._redraw()

    def on_resize(self) -> None:
        self._redraw()

    def notify_style_update(self) -> None:
        self._styles.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if not self._styles:
            self._styles = role_styles(self, PREFIX, ROLES)
        if self._rows is None:
            stats = self._reading.stats
            if isinstance(stats, ServerStatistics):
                self._rows = server_speed.layout(stats, width, height, self.ascii_only)
            else:
                self._rows = layout(self._reading, width, height, self.ascii_only)
        if y >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        return to_strip(self._rows[y], self._styles).crop_extend(0, width, self.rich_style)

    def _redraw(self) -> None:
        self._rows = None
        self.refresh()
