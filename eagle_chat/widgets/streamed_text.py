"""A text that streams in: cheap to show while it grows, real Markdown when it is complete."""

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from textual.containers import VerticalGroup
from textual.widgets import Markdown, Static

from eagle_chat.widgets.folding_away import show_all
from eagle_chat.widgets.light_markdown import light_markdown

PIECE = 1500  # characters after which the next line starts a new widget


def chat_parser() -> MarkdownIt:
    """Markdown as chats mean it: HTML and link definitions are text, line breaks and indents stay."""
    # Textual drops HTML tokens and reference definitions: what a model wrote in them would vanish
    parser = MarkdownIt("gfm-like", {"html": False}).disable("reference")
    parser.inline.ruler.at("newline", _line_break)
    return parser


def _line_break(state: StateInline, silent: bool) -> bool:
    """A line break stays one, and the spaces after it stay: models write code without fences, too."""
    if state.src[state.pos] != "\n":
        return False
    line = state.src[state.pos + 1 :]
    indent = len(line) - len(line.lstrip(" "))
    if not silent:
        state.pending = state.pending.rstrip(" ")
        state.push("hardbreak", "br", 0)
        for _ in range(indent):  # one token each, kept apart: runs of spaces in a token shrink to one
            state.push("text", "", 0).content = " "
            state.push("indent", "", 0)
    state.pos += 1 + indent
    return True


class StreamedText(VerticalGroup):
    """A text that grows: pieces of light Markdown first, real Markdown when it is complete."""

    def __init__(self) -> None:
        super().__init__()
        self.source = ""
        self.idle = True
        self._tail = ""  # what the last piece shows
        self._in_fence = False  # where the last piece begins
        self._piece: Static | None = None
        self._rows = 0  # that the last piece fills
        self._height = 0  # rows that it was given

    @property
    def room(self) -> int:
        """Rows of the layout that are still empty."""
        return max(0, self._piece.size.height - self._rows) if self._piece and self._height else 0

    @property
    def fits(self) -> bool:
        """Whether all of it is within what is laid out."""
        return self._piece is not None and self._rows <= self._piece.size.height

    def write(self, text: str, room: int = 0) -> None:
        """Add `text`. Where it needs a new layout, that leaves `room` rows for what comes next."""
        self.source += text
        self._tail += text
        content, in_fence = light_markdown(self._tail, self._in_fence)
        piece = self._piece or Static(classes="piece")
        self._rows = content.get_height({}, self.size.width) if self.size.width else 0
        fits = 0 < self._rows <= self._height
        if not fits and self._rows:
            self._height = max(self._rows, self._height + room)
            piece.styles.min_height = self._height
        piece.update(content, layout=not fits)
        if self._piece is None:
            self._piece = piece
            self.mount(piece)
        if len(self._tail) > PIECE and self._tail.endswith("\n"):
            self.give_room_back()
            piece.update(content[:-1])
            self._piece, self._tail, self._in_fence = None, "", in_fence

    def give_room_back(self) -> None:
        """No more rows than are filled."""
        if self._piece is not None:
            self._piece.styles.clear_rule("min_height")
            self._piece.refresh(layout=True)
        self._height = self._rows = 0

    def finish(self, whole: str) -> None:
        """Show exactly `whole`, as real Markdown."""
        self.source = whole
        self.idle = False
        self.call_later(self._replace_pieces, whole)

    async def _replace_pieces(self, whole: str) -> None:
        pieces = self.query(".piece")
        with self.app.batch_update():
            await self.mount(Markdown(whole, parser_factory=chat_parser))
            await pieces.remove()
            show_all(self)
        self.idle = True
