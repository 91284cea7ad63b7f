"""The box one writes in: several lines, enter sends, pasting never does."""

from typing import ClassVar

from textual import events
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from eagle_chat.visible import visible

HINT_SECONDS = 5.0


class Prompt(TextArea):
    """A text area that grows with its text. It reports `Sent`; whoever takes the text clears it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send", id="prompt.send"),
        Binding(
            "ctrl+j,shift+enter", "newline", "newline", id="prompt.newline", key_display="^j",
            tooltip="shift+enter where the terminal can tell it from enter",
        ),
        Binding("pageup", "screen.scroll_chat(-1)", "scroll the chat", id="prompt.page_up", show=False),
        Binding("pagedown", "screen.scroll_chat(1)", "scroll the chat", id="prompt.page_down", show=False),
    ]  # fmt: skip

    class Sent(Message):
        """Enter was pressed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(
            id="prompt",
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            placeholder="Ask something",
        )

    def on_mount(self) -> None:
        """Keys that the user has given to something are not for editing any more."""
        for key in getattr(self.app, "own_keys", ()):
            self._bindings.key_to_bindings.pop(key, None)

    async def _on_key(self, event: events.Key) -> None:
        # bindings run in the app, which may be ahead of the letters that still wait here: in a burst
        # of keys they would send or break the line too early
        bound = None if event.is_printable else self.screen.active_bindings.get(event.key)
        if bound is not None and bound.node is self and bound.binding.action in ("send", "newline"):
            event.stop()
            event.prevent_default()
            (self.action_send if bound.binding.action == "send" else self.action_newline)()

    def action_send(self) -> None:
        """Report the text."""
        self.post_message(self.Sent(self.text))

    def action_newline(self) -> None:
        """Insert a line break."""
        self._replace_via_keyboard("\n", *self.selection)

    def action_copy(self) -> None:
        """Copy the selection; without one, ctrl+c means what it means elsewhere."""
        if not self.selected_text:
            raise SkipAction
        super().action_copy()


class PromptBar(Vertical):
    """The prompt under a line that carries hints."""

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.prompt = Prompt()
        self._hint = ""

    def compose(self) -> ComposeResult:
        """A marker and the text area."""
        yield Static("❯", id="prompt-marker", markup=False)
        yield self.prompt

    def give_back(self, text: str) -> None:
        """Put a prompt that was not sent before what has been written since."""
        written = self.prompt.text
        self.prompt.text = f"{text}\n{written}" if written else text
        self.prompt.move_cursor(self.prompt.document.end)
        self.hint("")

    def hint(self, text: str, *, stays: bool = False) -> None:
        """Show a sentence on the line; it goes away by itself unless it `stays`."""
        text = visible(text)
        self._hint = text
        self.border_title = Content(f" {text} " if text else "")
        if text and not stays:
            self.set_timer(HINT_SECONDS, lambda: self._forget(text))

    def _forget(self, text: str) -> None:
        if self._hint == text:
            self.hint("")
