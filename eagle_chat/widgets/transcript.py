"""The conversation. Text streams in, is never lost and never read as markup."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from eagle_chat.conversation import Entry
from eagle_chat.reply import Reply
from eagle_chat.visible import visible
from eagle_chat.widgets.choosing import MessageCursor
from eagle_chat.widgets.folding_away import hide_above, show_all
from eagle_chat.widgets.following_scroll import FollowingScroll
from eagle_chat.widgets.messages import AssistantMessage, Message, UserMessage
from eagle_chat.widgets.token_view import TokenView


class Transcript(FollowingScroll):
    """All messages, newest at the bottom and in view unless one scrolled up. Keys are for a chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "choose(-1)", "choose a message", id="transcript.up", show=False),
        Binding("down,j", "choose(1)", "choose a message", id="transcript.down", show=False),
        Binding("e", "edit", "edit", id="transcript.edit", tooltip="and go on from there"),
        Binding("y", "copy_message", "copy", id="transcript.copy", tooltip="the chosen message"),
        Binding("c", "copy_block", "copy code", id="transcript.copy_block", tooltip="block by block"),
        Binding("v", "app.command('/versions')", "go to the version before an edit", id="transcript.versions",
                show=False),
    ]  # fmt: skip

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._page = VerticalGroup(classes="page")
        self._newest: AssistantMessage | None = None
        self._cursor = MessageCursor()

    def compose(self) -> ComposeResult:
        """At least a screenful: Textual would push a shorter one to the bottom."""
        yield self._page

    def on_mount(self) -> None:
        """Follow the end."""
        self.anchor()

    def note(self, text: str) -> Static:
        """A sentence of the app's own."""
        note = Static(Content(visible(text)), classes="note")
        self._page.mount(note)
        return note

    def add_prompt(self, text: str) -> None:
        """A prompt was sent: whoever sends wants to see what comes."""
        self._page.mount(UserMessage(text))
        self.anchor()

    def add_reply(self) -> AssistantMessage:
        """A reply begins."""
        self._newest = AssistantMessage()
        self._page.mount(self._newest)
        return self._newest

    def write(self, reply: Reply) -> None:
        """Show what is new in the reply that began last."""
        message = self._newest
        if message is None:
            return
        message.show(reply, self.room_below(message))
        if reply.over:
            self.settle()
        else:
            self.grown(message.text_widget)
            self.lighten()

    def show_tokens(self, wanted: bool) -> None:
        """Of all replies, who wrote what, or the text again."""
        for message in self.query(AssistantMessage):
            message.show_tokens(wanted)

    @property
    def token_view(self) -> TokenView | None:
        """That of the newest reply which shows its tokens."""
        views = (message.tokens for message in reversed(self.query(AssistantMessage)))
        return next((view for view in views if view is not None), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without the focus no message is chosen: the keys keep the meaning they have elsewhere."""
        return self.has_focus or action not in ("choose", "edit", "copy_message", "copy_block")

    def remove_last_reply(self) -> None:
        """The last reply is about to be replaced."""
        if self._newest is not None:
            self._newest.remove()
            self._newest = None

    def cut(self, index: int) -> None:
        """Prompt number `index` and all below it give way."""
        first = self._prompts()[index]
        children = list(self._page.children)
        for child in children[children.index(first) :]:
            child.remove()
        self._newest = None
        self._cursor.choose(None)

    def show(self, entries: Sequence[Entry]) -> None:
        """Another conversation."""
        self.clear()
        for entry in entries:
            self.add_prompt(entry.prompt)
            if entry.reply is not None:
                self.add_reply().show(entry.reply)

    def on_focus(self) -> None:
        """Keys are for a message now: the last prompt, until another is chosen."""
        prompts = self._prompts()
        if self._cursor.message is None and prompts:
            self._cursor.choose(prompts[-1])

    def on_blur(self) -> None:
        """Nothing is chosen any more."""
        self._cursor.choose(None)

    def action_choose(self, by: int) -> None:
        """The message above or below."""
        self.restore()
        self.stay()
        self._cursor.move(list(self._page.query_children(Message)), by)

    def action_edit(self) -> None:
        """The chosen prompt, or the one that the chosen reply answers."""
        messages = list(self._page.query_children(Message))
        if self._cursor.message in messages:
            up_to = messages[: messages.index(self._cursor.message) + 1]
            number = sum(isinstance(message, UserMessage) for message in up_to)
            self.app.action_command(f"/edit {number}")  # type: ignore[attr-defined]

    def action_copy_message(self) -> None:
        """All of the chosen message."""
        if self._cursor.message is not None:
            self.app.copy_text(self._cursor.message.source)  # type: ignore[attr-defined]

    def action_copy_block(self) -> None:
        """The next code block of the chosen message."""
        block = self._cursor.next_block()
        if block is None:
            self.app.say("The chosen message has no code block.")  # type: ignore[attr-defined]
        else:
            self.app.copy_text(block)  # type: ignore[attr-defined]

    def clear(self) -> None:
        """Back to an empty page."""
        self._newest = None
        self._cursor.choose(None)
        self._page.remove_children()
        self.anchor()

    def lighten(self) -> None:
        """Leave out of the layout what is above the view, as long as one reads at the end."""
        if self.scroll_offset.y < self.max_scroll_y:
            return
        for container in self._containers():
            hide_above(container, self.region.y)

    def restore(self) -> None:
        """Everything is on the page again."""
        for container in self._containers():
            show_all(container)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Somebody reads further up."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < self.max_scroll_y:
            self.restore()

    def on_resize(self) -> None:
        """Other widths, other heights: what is left out would keep the wrong place."""
        super().on_resize()
        self.restore()

    def _prompts(self) -> list[UserMessage]:
        return list(self._page.query_children(UserMessage))

    def _containers(self) -> list[Widget]:
        return [self._page, *([self._newest.text_widget] if self._newest else [])]

    def scroll_pages(self, pages: int) -> None:
        """Scroll by whole pages from elsewhere."""
        scroll: Callable[..., None] = self.scroll_page_down if pages > 0 else self.scroll_page_up
        scroll(animate=False)
