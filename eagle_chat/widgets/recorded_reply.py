"""A recorded reply at one moment: the same moment always looks the same, however one came there."""

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from eagle_chat.replaying import Frame, Replay
from eagle_chat.visible import visible
from eagle_chat.widgets.light_markdown import light_markdown
from eagle_chat.widgets.messages import Message


class RecordedReply(Message):
    """The text after some rounds, underlined where the newest one wrote, and at the end a line of numbers."""

    def __init__(self) -> None:
        super().__init__("eagle", classes="assistant recorded")
        self._text = Static("", classes="piece", markup=False)
        self._footer = Static("", classes="numbers", markup=False)

    def body(self) -> ComposeResult:
        """Text and footer."""
        yield self._text
        yield self._footer

    def show(self, replay: Replay, frame: Frame) -> None:
        """Show this moment."""
        self._text.update(written(frame))
        self._footer.update(Content(visible(replay.last_line()) if frame.over else ""))


def written(frame: Frame) -> Content:
    """The text of a frame as light Markdown; what the newest round wrote is underlined until all is over."""
    content, _ = light_markdown(visible(frame.text))
    if frame.over or not frame.fresh:
        return content
    earlier, _ = light_markdown(visible(frame.text[: -frame.fresh]))
    # Markup that closes changes what was there before: the first character that differs is where it begins.
    pairs = zip(content.plain, earlier.plain, strict=False)
    same = next((i for i, (one, other) in enumerate(pairs) if one != other), len(earlier.plain))
    return content.stylize("underline", same)
