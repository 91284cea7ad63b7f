"""A page that keeps its end in view while a text on it grows, without a new layout for every line.

A layout costs several times what painting some lines does. So the text gets more rows than it fills, up to
a view at a time. Textual's anchor would show those empty rows: while there are any, the end is followed here.
"""

from textual.containers import VerticalScroll
from textual.widget import Widget

from eagle_chat.widgets.streamed_text import StreamedText


class FollowingScroll(VerticalScroll):
    """Scrolls to the end of what is written, unless somebody reads further up."""

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._growing: StreamedText | None = None  # the text that may have room below
        self._following = True

    @property
    def max_scroll_y(self) -> int:
        """The end of what is written: room below it is not for reading."""
        room = 0 if self._growing is None else self._growing.room
        return max(0, super().max_scroll_y - room)

    def anchor(self, anchor: bool = True) -> None:
        """Follow the end, wherever one reads now."""
        self._following |= anchor
        super().anchor(anchor)

    def stay(self) -> None:
        """Somebody reads here: whatever comes below."""
        self._following = False
        self.release_anchor()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever comes back to the end follows it again."""
        super().watch_scroll_y(old_value, new_value)
        self._following = new_value >= self.max_scroll_y
        if self._following and self._growing is None and not self.is_anchored:
            self.anchor()

    def watch_virtual_size(self) -> None:
        """The text was laid out anew."""
        self._to_end()

    def on_resize(self) -> None:
        """Lines break elsewhere: room is made anew."""
        self.settle()

    def room_below(self, last: Widget) -> int:
        """Rows to add to a text in `last`, the end of the page: what is empty in the view, or else a view."""
        end = last.region.bottom + last.styles.margin.bottom
        return max(0, self.region.bottom - end) or self.container_size.height

    def grown(self, text: StreamedText) -> None:
        """`text` has changed."""
        self._growing = text
        self.anchor(False)
        if text.fits:
            self._to_end()

    def settle(self) -> None:
        """No room any more: Textual follows the end again."""
        if self._growing is not None:
            self._growing.give_room_back()
            self._growing = None
            if self._following:
                self.anchor()

    def _to_end(self) -> None:
        if self._following and self._growing is not None:
            self.scroll_y = self.scroll_target_y = self.max_scroll_y
            self.vertical_scrollbar.window_virtual_size = self.max_scroll_y + self.container_size.height
