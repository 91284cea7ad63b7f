"""The main screen: conversation, draft tree, gauge and prompt. It shows; the app decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from eagle_chat.conversation import Entry
from eagle_chat.events import SessionInfo
from eagle_chat.reply import Reply
from eagle_chat.widgets.draft_tree import DraftTreeView
from eagle_chat.widgets.gauge import Gauge
from eagle_chat.widgets.header import StatusLine
from eagle_chat.widgets.prompt import PromptBar
from eagle_chat.widgets.transcript import AssistantMessage, Transcript

SMALLEST = (60, 16)
# a screen has exactly one class of each list
WIDTHS = [(0, "-tiny"), (SMALLEST[0], "-narrow"), (100, "-medium"), (160, "-wide"), (200, "-very-wide")]
HEIGHTS = [(0, "-flat"), (SMALLEST[1], "-low"), (24, "-normal"), (32, "-high")]
SMALL_TREE = 12  # nodes
WELCOME = (
    "Ask something below. The draft tree and the speed of every round appear beside the text.\n"
    "ctrl+r runs the last prompt again without drafting and compares. F1 explains keys and numbers."
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What the gauge shows besides the reply's own numbers."""

    context: int
    ui_share: float | None = None
    plain_speed: float | None = None  # tokens per second of plain decoding of the same prompt


def has_small_trees(info: SessionInfo) -> bool:
    """A tree of few nodes leaves more room to the text; on a CPU those sized by their cost are such."""
    return info.nodes <= SMALL_TREE or (info.sized and info.device == "cpu")


class ChatScreen(Screen[None]):
    """Layout follows the width: a stack up to 159 columns, two columns from 160 on."""

    AUTO_FOCUS = "#prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.stop_reply", "stop", id="chat.stop", tooltip="the text so far stays"),
        Binding("escape", "leave", "change between prompt and tree", id="chat.leave", show=False),
        Binding("i,enter", "write", "write", id="chat.write", key_display="i", tooltip="back to the prompt"),
        Binding("y", "app.command('/copy')", "copy the last reply as Markdown", id="chat.copy", show=False),
    ]

    busy: reactive[bool] = reactive(False, bindings=True)

    def __init__(self, title: str) -> None:
        super().__init__()
        self.status = StatusLine(title)
        self.transcript = Transcript(id="transcript")
        self.tree_view = DraftTreeView(id="tree")
        self.gauge = Gauge(id="gauge")
        self.prompt_bar = PromptBar(id="prompt-bar")
        self._message: AssistantMessage | None = None

    def compose(self) -> ComposeResult:
        """All parts; the style sheet places them."""
        yield self.status
        with Container(id="main"):
            yield self.transcript
            yield self.tree_view
            yield self.gauge
        yield self.prompt_bar.suggestions
        yield self.prompt_bar
        yield Footer(compact=True)
        yield Static("", id="too-small", markup=False)

    @property
    def focus_chain(self) -> list[Widget]:
        """Tab leads from the prompt to the tree first."""
        return sorted(super().focus_chain, key=lambda widget: widget is not self.tree_view)

    def on_mount(self) -> None:
        """Nothing has happened yet."""
        self.transcript.note(WELCOME)
        self.tree_view.show(None)

    def loaded(self, info: SessionInfo) -> None:
        """The session is there: a tree of few nodes leaves more room to the conversation."""
        self.status.loaded(info, None)
        self.set_class(has_small_trees(info), "-small-tree")

    def sent(self, text: str) -> None:
        """A prompt went to the engine. Keys still go to the prompt: nothing typed meanwhile is lost."""
        self.transcript.lighten()
        self.transcript.add_prompt(text)

    def begin(self, *, replacing: bool) -> None:
        """A reply begins, maybe in place of the last one."""
        if replacing:
            self.transcript.remove_last_reply()
        self._message = self.transcript.add_reply()

    def paint(self, reply: Reply, figures: Figures, *, text: bool, picture: bool) -> None:
        """Show the state of the reply under way."""
        if text and self._message is not None:
            self._message.show(reply)
            self.transcript.lighten()
        if not picture:
            return
        if reply.rounds:
            self.tree_view.follow(reply.rounds)
        self.gauge.show(
            reply.statistics,
            plain_tokens_per_second=figures.plain_speed,
            ui_share=figures.ui_share,
            kv=_cached(reply, figures.context),
        )

    def end(self, reply: Reply, figures: Figures) -> None:
        """The reply is over: everything once more."""
        self.paint(reply, figures, text=True, picture=True)
        self._message = None
        self.transcript.restore()

    def clear(self) -> None:
        """A new conversation."""
        self._message = None
        self.transcript.clear()
        self.transcript.note(WELCOME)
        self.tree_view.show(None)
        self.prompt_bar.prompt.focus()

    def show(self, entries: Sequence[Entry]) -> None:
        """Another conversation in place of this one."""
        self._message = None
        self.transcript.show(entries)
        self.tree_view.show(None)

    def on_key(self, event: events.Key) -> None:
        """Somebody starts writing while the tree has the keys: the prompt gets this one and the rest."""
        prompt, writes = self.prompt_bar.prompt, event.is_printable and event.key not in self.active_bindings
        if writes and event.character and self.focused is not prompt:
            prompt.focus()
            prompt.insert(event.character)

    def on_resize(self, event: events.Resize) -> None:
        """Say what is missing when there is no room."""
        width, height = event.size
        needed = "×".join(map(str, SMALLEST))
        text = f"eagle-chat needs {needed} (now {width}×{height}); `eagle-chat run` works anywhere."
        self.query_one("#too-small", Static).update(text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what does something now."""
        if action == "leave":
            return not self.busy
        return not (action == "write" and self.focused is self.prompt_bar.prompt)

    def action_leave(self) -> None:
        """Out of the prompt, into the tree; and back."""
        writing = self.focused is self.prompt_bar.prompt
        (self.tree_view if writing else self.prompt_bar.prompt).focus()

    def action_write(self) -> None:
        """To the prompt."""
        self.prompt_bar.prompt.focus()

    def action_scroll_chat(self, pages: int) -> None:
        """Scroll the conversation while writing."""
        self.transcript.scroll_pages(pages)


def _cached(reply: Reply, context: int) -> tuple[int, int] | None:
    """Tokens in the conversation, and the longest it can get."""
    return (reply.prefill.total + reply.statistics.new_tokens, context) if reply.prefill else None
