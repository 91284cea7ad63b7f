"""A reply token by token: underlined what was drafted, bold what the model added itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup, VerticalScroll
from textual.content import Content, Span
from textual.geometry import Region
from textual.message import Message
from textual.style import Style
from textual.widgets import Static

from eagle_chat.authorship import Written, written_by
from eagle_chat.records import RoundRecord
from eagle_chat.reply import Reply
from eagle_chat.visible import visible

DRAFTED, OWN = "underline $tree-accepted", "bold $tree-bonus"
LEGEND = "underlined: drafted, deeper from left to right; bold: the model's own, ends a round"


class TokenView(VerticalGroup, can_focus=True):
    """Stands in the place of a reply's Markdown. A token can be chosen, and its round asked for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "choose(-1)", "token", id="tokens.before", key_display="←→",
                tooltip="choose a token of the reply; or click it"),
        Binding("right", "choose(1)", "token", id="tokens.next", show=False,
                tooltip="choose a token of the reply; or click it"),
        Binding("enter", "open", "its round", id="tokens.open",
                tooltip="the draft tree of the round that wrote the token"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    TokenView {
        height: auto;
        & > .legend { color: $text-muted; height: auto; }
        &:focus > .legend { color: $text-primary; }
    }
    """

    @dataclass
    class RoundWanted(Message):
        """Somebody wants to see where a token comes from."""

        rounds: Sequence[RoundRecord]
        token: Written

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self._rounds = reply.rounds
        self._tokens = [token for token in written_by(reply.rounds_done()) if token.text]
        self._chosen: int | None = None
        self._ends: list[int] = []  # characters up to the end of each token
        self._content = self._spread()
        self._text = Static(self._content, classes="tokens")
        self._legend = Static(LEGEND, classes="legend", markup=False)

    def compose(self) -> ComposeResult:
        """The text, and a line about it or about the token chosen."""
        yield self._text
        yield self._legend

    def action_choose(self, step: int) -> None:
        """The next token, or the one before; the first step begins at the end one comes from."""
        if not self._tokens:
            return
        last = len(self._tokens) - 1
        start = (-1 if step > 0 else last + 1) if self._chosen is None else self._chosen
        self._choose(min(max(start + step, 0), last))

    def action_open(self) -> None:
        """Ask for the round of the token chosen."""
        if self._chosen is not None:
            self.post_message(self.RoundWanted(self._rounds, self._tokens[self._chosen]))

    def on_click(self, event: events.Click) -> None:
        """Choose what stands there and open its round."""
        place = event.style.meta.get("token")
        if place is not None:
            self._choose(place)
            self.action_open()

    def _choose(self, place: int) -> None:
        self._chosen = place
        start = self._ends[place - 1] if place else 0
        chosen = Span(start, self._ends[place], Style(reverse=True))
        self._text.update(Content(self._content.plain, [*self._content.spans, chosen]), layout=False)
        self._legend.update(f"{self._tokens[place].words()}; enter opens it")
        self._bring_into_view(start)

    def _bring_into_view(self, start: int) -> None:
        """Scroll so that the token can be seen: wrapping the text before it tells its line."""
        page = next((each for each in self.ancestors if isinstance(each, VerticalScroll)), None)
        if page is None or not self._text.size.width:
            return
        line = len(Content(self._content.plain[: start + 1]).wrap(self._text.size.width)) - 1
        top = self._text.region.y - page.content_region.y + page.scroll_offset.y
        page.scroll_to_region(Region(0, top + line, 1, 1), animate=False)

    def _spread(self) -> Content:
        """The text with a style and a number for every token; spaces before a word are not underlined."""
        text, spans = "", list[Span]()
        for place, token in enumerate(self._tokens):
            shown = visible(token.text)
            start, end = len(text) + len(shown) - len(shown.lstrip()), len(text) + len(shown)
            spans.append(Span(len(text), end, Style.from_meta({"token": place})))
            spans.append(Span(min(start, end), end, OWN if token.depth is None else DRAFTED))
            text += shown
            self._ends.append(end)
        return Content(text, spans)
