"""The box one writes in: several lines, enter sends, pasting never does."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual import events
from textual.actions import SkipAction
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from eagle_chat.errors import EagleChatError
from eagle_chat.external_editor import edit_text
from eagle_chat.prompt_history import PromptHistory
from eagle_chat.visible import visible
from eagle_chat.widgets.suggestions import Suggestions

HINT_SECONDS = 5.0


class Prompt(TextArea):
    """A text area that grows with its text. It reports `Sent`; whoever takes the text clears it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send", id="prompt.send"),
        Binding(
            "ctrl+j,shift+enter", "newline", "newline", id="prompt.newline", key_display="^j",
            tooltip="shift+enter where the terminal can tell it from enter",
        ),
        Binding("up", "earlier", "what was sent, from the first line", id="prompt.earlier", show=False),
        Binding("down", "later", "and back, from the last line", id="prompt.later", show=False),
        Binding("tab", "complete", "complete a command", id="prompt.complete", show=False),
        Binding("ctrl+g", "open_editor", "write in $EDITOR", id="prompt.editor", show=False),
        Binding("pageup", "screen.scroll_chat(-1)", "scroll the chat", id="prompt.page_up", show=False),
        Binding("pagedown", "screen.scroll_chat(1)", "scroll the chat", id="prompt.page_down", show=False),
    ]  # fmt: skip

    class Sent(Message):
        """Enter was pressed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class EditLeft(Message):
        """Escape while a message of the past is edited."""

    def __init__(self, suggestions: Suggestions) -> None:
        super().__init__(
            id="prompt",
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            placeholder="Ask something, or / for commands",
        )
        self.suggestions = suggestions
        self.sent_before = PromptHistory()
        self.editing = False  # a message of the past: escape leaves it

    def put(self, text: str) -> None:
        """Hold `text`, to be written on at its end."""
        self.text = text
        self.move_cursor(self.document.end)

    def taken(self, text: str) -> None:
        """The text is sent: room for the next."""
        self.clear()
        self.sent_before.add(text)

    def on_mount(self) -> None:
        """Keys that the user has given to something are not for editing any more."""
        for key in getattr(self.app, "own_keys", ()):
            self._bindings.key_to_bindings.pop(key, None)

    async def _on_key(self, event: events.Key) -> None:
        self.suggestions.follow(self.text)
        action = self._action_of(event)
        if action is not None:
            action()
        elif not await self._ran_binding(event):
            return
        event.stop()
        event.prevent_default()

    async def _ran_binding(self, event: events.Key) -> bool:
        """Whether a binding of ours took the key.

        Left alone, bindings run when the key has come up to the app, and letters that wait here are ahead of
        it: in a burst of keys ctrl+u would delete what was typed after it, and enter send too early.
        """
        bound = None if event.is_printable else self.screen.active_bindings.get(event.key)
        if bound is None or bound.node is not self:
            return False
        return await self.app.run_action(bound.binding.action, self)

    def _action_of(self, event: events.Key) -> Callable[[], None] | None:
        """What a key does that means something else now."""
        if self.suggestions.is_open:
            choosing: dict[str, Callable[[], None]] = {
                "tab": self.action_complete,
                "escape": self.suggestions.close,
                "up": partial(self.suggestions.move, -1),
                "down": partial(self.suggestions.move, 1),
            }
            return choosing.get(event.key)
        return self._leave_edit if self.editing and event.key == "escape" else None

    def on_text_area_changed(self) -> None:
        """What is written may be the beginning of a command."""
        self.suggestions.follow(self.text)

    def action_complete(self) -> None:
        """Write out the chosen suggestion; elsewhere tab leads on."""
        if not self.suggestions.is_open:
            raise SkipAction
        chosen = self.suggestions.chosen
        self.put(f"{chosen.text} " if chosen.takes_argument else chosen.text)
        self.suggestions.follow(self.text)

    def action_earlier(self) -> None:
        """What was sent before; within several lines, a line up."""
        if self._cursor_row == 0:
            self._recall(self.sent_before.earlier(self.text))
        else:
            self.action_cursor_up()

    def action_later(self) -> None:
        """What was sent after that; within several lines, a line down."""
        if self._cursor_row == self.wrapped_document.height - 1:
            self._recall(self.sent_before.later())
        else:
            self.action_cursor_down()

    def action_open_editor(self) -> None:
        """Go on in the user's own editor."""
        try:
            with self.app.suspend():
                text = edit_text(self.text)
        except SuspendNotSupported:
            self.app.notify("An editor needs a terminal that can be left for a while.")
        except EagleChatError as error:
            self.app.notify(visible(str(error)), markup=False, severity="error")
        else:
            self.put(text)

    @property
    def _cursor_row(self) -> int:
        """Its line on screen: long ones are wrapped."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    def _leave_edit(self) -> None:
        self.post_message(self.EditLeft())

    def _recall(self, text: str | None) -> None:
        if text is not None:
            self.put(text)
            self.suggestions.follow(text)
            self.suggestions.close()  # up and down go on through the history

    def action_send(self) -> None:
        """Report the text. A command that is not written out is completed first."""
        if self.suggestions.is_picked:
            is_whole = self.suggestions.chosen.is_whole
            self.action_complete()
            if not is_whole:
                return
        self.suggestions.close()
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
        self.suggestions = Suggestions()
        self.prompt = Prompt(self.suggestions)
        self._hint = self._standing = ""

    def compose(self) -> ComposeResult:
        """A marker and the text area."""
        yield Static("❯", id="prompt-marker", markup=False)
        yield self.prompt

    def give_back(self, text: str) -> None:
        """Put a prompt that was not sent before what has been written since."""
        written = self.prompt.text
        self.prompt.put(f"{text}\n{written}" if written else text)
        self.hint("")

    def hint(self, text: str, *, stays: bool = False) -> None:
        """Show a sentence on the line. It goes away by itself, unless it `stays` until another does or ""."""
        text = visible(text)
        if stays or not text:
            self._standing = text
        self._show(text)
        if text and not stays:
            self.set_timer(HINT_SECONDS, lambda: self.forget(text))

    def forget(self, text: str) -> None:
        """Take a sentence away where it still stands."""
        if self._hint == text:
            self._show(self._standing)

    def _show(self, text: str) -> None:
        self._hint = text
        self.border_title = Content(f" {text} " if text else "")
