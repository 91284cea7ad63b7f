"""The messages of a conversation: who speaks, what they said and, under a reply, its numbers."""

from textual.app import ComposeResult
from textual.containers import HorizontalGroup, VerticalGroup
from textual.content import Content
from textual.widgets import Label, Static

from eagle_chat.reply import Reply
from eagle_chat.visible import visible
from eagle_chat.widgets.streamed_text import StreamedText
from eagle_chat.widgets.token_view import TokenView


class Message(HorizontalGroup):
    """A speaker and what they said."""

    def __init__(self, speaker: str, *, classes: str) -> None:
        super().__init__(classes=classes)
        self._speaker = speaker

    def compose(self) -> ComposeResult:
        """Two columns."""
        yield Label(self._speaker, classes="speaker", markup=False)
        with VerticalGroup():
            yield from self.body()

    def body(self) -> ComposeResult:
        """What was said."""
        yield from ()

    @property
    def source(self) -> str:
        """The text on screen, as Markdown source."""
        return ""


class UserMessage(Message):
    """A prompt, exactly as it was typed."""

    def __init__(self, text: str) -> None:
        super().__init__("you", classes="user")
        self.text = text

    @property
    def source(self) -> str:
        """The prompt."""
        return self.text

    def body(self) -> ComposeResult:
        """The prompt."""
        yield Static(Content(visible(self.text)), classes="said")


class AssistantMessage(Message):
    """A reply: Markdown that grows, and one line of numbers under it."""

    def __init__(self) -> None:
        super().__init__("eagle", classes="assistant")
        self._text = StreamedText()
        self._footer = Static("", classes="numbers", markup=False)
        self._written = 0  # characters handed to the Markdown so far
        self._reply: Reply | None = None  # once it is over
        self._tokens: TokenView | None = None  # in place of the text

    def body(self) -> ComposeResult:
        """Text and footer."""
        yield self._text
        yield self._footer

    @property
    def text_widget(self) -> StreamedText:
        """Where the text is."""
        return self._text

    @property
    def tokens(self) -> TokenView | None:
        """Who wrote what, where that is shown."""
        return self._tokens

    @property
    def idle(self) -> bool:
        """Whether everything known is on screen."""
        return self._text.idle

    @property
    def source(self) -> str:
        """The text on screen, as Markdown source."""
        return self._text.source

    def show(self, reply: Reply, room: int = 0) -> None:
        """Add what is new in `reply`, with `room` for more; when it is over, all of it and its numbers."""
        text = reply.text
        if reply.over:
            self._reply = reply
            self._text.finish(visible(text))
            self._footer.update(_last_line(reply))
            self.set_class(reply.stopped, "-stopped")
            self.set_class(reply.problem is not None, "-failed")
        elif len(text) > self._written:
            self._text.write(visible(text[self._written :]), room)
            self._written = len(text)

    def show_tokens(self, wanted: bool) -> None:
        """Show who wrote each token of a reply that is over, or the reply itself again.

        Nobody knows that of a reply that was saved: its rounds are not.
        """
        known = self._reply if wanted and self._reply is not None and self._reply.rounds else None
        self._text.display = known is None
        if self._tokens is not None:
            self._tokens.remove()
            self._tokens = None
        if known is not None:
            self._tokens = TokenView(known)
            self.query_one(VerticalGroup).mount(self._tokens, before=self._text)


def _last_line(reply: Reply) -> Content:
    parts = []
    if reply.problem is not None:
        parts.append((f"✗ {visible(reply.problem)}  ", "$text-error"))
    if reply.stopped:
        parts.append(("■ stopped  ", "bold"))
    elif reply.problem is None and not reply.text.strip():
        parts.append(("empty reply  ", "italic"))
    return Content.assemble(*parts, reply.footer())
