"""A short list over the prompt: the commands that what is written could become."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.widgets import Static

from eagle_chat.commands import Suggestion
from eagle_chat.visible import visible

ROWS = 8
LONGEST = 18  # characters of the commands' column


class Suggestions(Static):
    """Shows what fits to the text, one of them chosen; the prompt asks it what its keys mean."""

    def __init__(self) -> None:
        super().__init__("", id="suggestions", markup=False)
        self.source: Callable[[str], list[Suggestion]] = lambda _: []
        self._text = ""
        self._found: list[Suggestion] = []
        self._at = 0
        self._moved = False
        self._closed_at: str | None = None  # the text at which it was closed
        self.display = False

    def follow(self, text: str) -> None:
        """The text of the prompt is this now."""
        if text == self._text:
            return
        self._text, self._at, self._moved = text, 0, False
        self._closed_at = None
        self._found = self.source(text)
        self._paint()

    def close(self) -> None:
        """Out of the way until something is typed."""
        self._closed_at = self._text
        self._paint()

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self._found) and self._closed_at is None

    @property
    def chosen(self) -> Suggestion:
        """What the prompt would say."""
        return self._found[self._at]

    @property
    def is_picked(self) -> bool:
        """Whether enter means the chosen one: not where the text says one already, or nothing yet."""
        is_complete = any(self._text.rstrip() == each.text for each in self._found)
        return self.is_open and not is_complete and (self._moved or not self._text.endswith(" "))

    def move(self, by: int) -> None:
        """Choose another one."""
        self._moved = True
        self._at = (self._at + by) % len(self._found)
        self._paint()

    def _paint(self) -> None:
        self.display = self.is_open
        if not self.is_open:
            return
        first = max(0, min(self._at - ROWS // 2, len(self._found) - ROWS))
        width = max(len(each.text) for each in self._found)
        width = max(LONGEST, min(width, 40))
        lines = []
        for number, each in enumerate(self._found[first : first + ROWS], first):
            line = f" {visible(each.text):<{width}} {visible(each.hint)} "
            lines.append(Content.styled(line, "reverse") if number == self._at else Content(line))
        self.update(Content("\n").join(lines))
        more = len(self._found) - ROWS
        self.border_subtitle = Content(f" {self._at + 1} of {len(self._found)} " if more > 0 else "")
