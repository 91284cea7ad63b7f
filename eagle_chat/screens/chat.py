"""The main screen: conversation, draft tree, gauge and prompt. It shows; the app decides."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from eagle_chat.conversation import Entry
from eagle_chat.events import SessionInfo
from eagle_chat.figures import Figures
from eagle_chat.layout import acceptance
from eagle_chat.layout.speed import Reading
from eagle_chat.reply import Reply
from eagle_chat.screens.steady import SteadyScreen
from eagle_chat.server.statistics import ServerStatistics
from eagle_chat.widgets.fitting_footer import FittingFooter
from eagle_chat.widgets.gauge import Gauge
from eagle_chat.widgets.header import StatusLine
from eagle_chat.widgets.live_tree import LiveTree
from eagle_chat.widgets.messages import AssistantMessage
from eagle_chat.widgets.prompt import PromptBar
from eagle_chat.widgets.token_view import TokenView
from eagle_chat.widgets.transcript import Transcript

SMALLEST = (60, 16)
# a screen has exactly one class of each list
WIDTHS = [(0, "-tiny"), (SMALLEST[0], "-narrow"), (100, "-medium"), (160, "-wide"), (200, "-very-wide")]
HEIGHTS = [(0, "-flat"), (SMALLEST[1], "-low"), (24, "-normal"), (32, "-high")]
WHILE_BUSY = ("freeze", "app.pause_engine")
NOTHING_RUNS = "The reply is over: ← → go through its rounds, . and , through their phases."
SMALL_TREE = 12  # nodes
WELCOME = (
    "Ask something below. The draft tree and the speed of every round appear beside the text.\n"
    "ctrl+r runs the last prompt again without drafting and compares. F1 explains keys and numbers.\n"
    "New to this? `eagle-chat tour` shows in eight short chapters how it works."
)
SERVER_WELCOME = (
    "Ask something below: the model runs on the server, with drafts of its own. How much of them it accepts "
    "appears beside the text.\nF1 explains keys and numbers."
)


def has_small_trees(info: SessionInfo) -> bool:
    """A tree of few nodes leaves more room to the text; on a CPU those sized by their cost are such."""
    return info.nodes <= SMALL_TREE or (info.sized and info.device == "cpu")


class ChatScreen(SteadyScreen[None]):
    """Layout follows the width: a stack up to 159 columns, two columns from 160 on."""

    AUTO_FOCUS = "#prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.stop_reply", "stop", id="chat.stop", tooltip="the text so far stays"),
        Binding("escape", "leave", "change between prompt and tree", id="chat.leave", show=False),
        Binding(
            "space",
            "freeze",
            "freeze",
            id="chat.freeze",
            tooltip="the screen stands still while decoding goes on; again: it catches up",
        ),
        Binding(
            "p",
            "app.pause_engine",
            "pause",
            id="chat.pause",
            tooltip="the engine waits after this round; then . or → decodes one more, and p goes on",
        ),
        Binding("i,enter", "write", "write", id="chat.write", key_display="i", tooltip="back to the prompt"),
        Binding(
            "c",
            "calibration",
            "calibration",
            id="chat.calibration",
            show=False,
            tooltip="below the speed: how often the drafter is right when it is so sure",
        ),
        Binding(
            "h",
            "tokens",
            "who wrote what",
            id="chat.tokens",
            show=False,
            tooltip="in the replies: underlined was drafted, bold is the model's own; tab goes there",
        ),
        Binding("y", "app.command('/copy')", "copy the last reply as Markdown", id="chat.copy", show=False),
    ]

    busy: reactive[bool] = reactive(False, bindings=True)
    paused: reactive[bool] = reactive(False, bindings=True)  # the engine waits, or is about to

    def __init__(self, title: str) -> None:
        super().__init__()
        self.status = StatusLine(title)
        self.transcript = Transcript(id="transcript")
        self.tree_view = LiveTree(id="tree")
        self.gauge = Gauge(id="gauge")
        self.prompt_bar = PromptBar(id="prompt-bar")
        self._message: AssistantMessage | None = None
        self._painted: tuple[Reply, Figures] | None = None  # what the panels show
        self._server = False  # the model runs elsewhere
        self._blinks = self.prompt_bar.prompt.cursor_blink
        self.expect("cpu")

    def compose(self) -> ComposeResult:
        """All parts; the style sheet places them."""
        yield self.status
        with Container(id="main"):
            yield self.transcript
            yield self.tree_view
            yield self.gauge
        yield self.prompt_bar.suggestions
        yield self.prompt_bar
        yield FittingFooter(compact=True)
        yield Static("", id="too-small", markup=False)

    @property
    def focus_chain(self) -> list[Widget]:
        """Tab leads from the prompt to the tree, then to the newest reply's tokens where they show."""
        first = (self.tree_view, self.transcript.token_view)
        return sorted(super().focus_chain, key=lambda each: first.index(each) if each in first else 2)

    def on_mount(self) -> None:
        """Nothing has happened yet."""
        self._welcome = self.transcript.note(WELCOME)
        self.tree_view.show(None)

    def expect(self, device: object) -> None:
        """A model is loaded, probably on this device: leave the room that its trees will leave."""
        self.set_class(device == "cpu", "-small-tree")

    def loaded(self, info: SessionInfo) -> None:
        """The session is there: a tree of few nodes leaves more room to the conversation."""
        self.status.loaded(info, None)
        self.set_class(has_small_trees(info), "-small-tree")
        if info.server is not None:
            self._server = True
            self._welcome.update(SERVER_WELCOME)
            self.gauge.show(Reading(ServerStatistics()))
            self.tree_view.show_instead(partial(acceptance.layout, None))

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
        """Show the state of the reply under way; while the view stands still, only how far it is."""
        if picture and reply.rounds:
            self.tree_view.follow(reply.rounds)
        if not self.tree_view.stands_still:
            self._show(reply, figures, text=text, picture=picture)

    def _show(self, reply: Reply, figures: Figures, *, text: bool, picture: bool) -> None:
        if text and self._message is not None:
            self.transcript.write(reply)
        if not picture:
            return
        self._painted = (reply, figures)
        if self._server and reply.server is not None:
            self.tree_view.show_instead(partial(acceptance.layout, reply.server))
        self.gauge.show(figures.reading(reply, calibrated=self.has_class("-calibration")))

    def behind(self, reply: Reply) -> int | None:
        """Rounds that came since the view was frozen; None where it is not."""
        frozen, newest = self.tree_view.frozen_at, reply.newest
        return None if frozen is None or newest is None else newest.index - frozen

    def end(self, reply: Reply, figures: Figures) -> None:
        """The reply is over: everything once more."""
        self.tree_view.thaw()
        self.paint(reply, figures, text=False, picture=True)
        self._show(reply, figures, text=True, picture=True)
        if self._message is not None and self.has_class("-tokens"):
            self._message.call_later(self._message.show_tokens, True)  # a short reply is not on screen yet
        self._message = None
        self.transcript.restore()

    def clear(self) -> None:
        """A new conversation."""
        self._message = self._painted = None
        self.tree_view.thaw()
        self.transcript.clear()
        self.transcript.note(SERVER_WELCOME if self._server else WELCOME)
        self.tree_view.show(None)
        if self._server:
            self.tree_view.show_instead(partial(acceptance.layout, None))
        self.prompt_bar.prompt.focus()

    def show(self, entries: Sequence[Entry]) -> None:
        """Another conversation in place of this one."""
        self._message = None
        self.transcript.show(entries)
        self.tree_view.show(None)

    def watch_busy(self, before: bool, busy: bool) -> None:
        """Two more paintings a second only for a cursor that blinks are too many next to a reply."""
        prompt = self.prompt_bar.prompt
        if busy and not before:
            self._blinks, prompt.cursor_blink = prompt.cursor_blink, False
        elif before and not busy:
            prompt.cursor_blink = self._blinks

    def on_key(self, event: events.Key) -> None:
        """Somebody starts writing while the tree has the keys: the prompt gets this one and the rest.

        Not what would have paused or frozen a reply that came to its end a moment ago.
        """
        prompt, writes = self.prompt_bar.prompt, event.is_printable and event.key not in self.active_bindings
        if not writes or not event.character or self.focused is prompt:
            return
        if self.tree_view.record is not None and event.key in self._keys_of(*WHILE_BUSY):
            self.prompt_bar.hint(NOTHING_RUNS)
            return
        prompt.focus()
        prompt.insert(event.character)

    def _keys_of(self, *actions: str) -> set[str]:
        """The keys of actions, whether they can be done now or not."""
        bound = (binding for _, bindings in self._binding_chain for binding in bindings)
        return {key for key, binding in bound if binding.action in actions}

    def on_resize(self, event: events.Resize) -> None:
        """Say what is missing when there is no room."""
        width, height = event.size
        needed = "×".join(map(str, SMALLEST))
        text = f"eagle-chat needs {needed} (now {width}×{height}); `eagle-chat --plain` works anywhere."
        self.query_one("#too-small", Static).update(text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what does something now."""
        if action == "leave":
            return not self.busy
        if action == "freeze":  # what waits stands still by itself
            return self.busy and (not self.paused or self.tree_view.frozen_at is not None)
        return not (action == "write" and self.focused is self.prompt_bar.prompt)

    def action_leave(self) -> None:
        """Out of the prompt, into the tree; and back."""
        writing = self.focused is self.prompt_bar.prompt
        (self.tree_view if writing else self.prompt_bar.prompt).focus()

    def action_freeze(self) -> None:
        """The view stands still while decoding goes on; and catches up."""
        self.tree_view.freeze()

    def action_write(self) -> None:
        """To the prompt."""
        self.prompt_bar.prompt.focus()

    def action_calibration(self) -> None:
        """Show the calibration strip, or no more."""
        self.toggle_class("-calibration")
        if self._painted is not None:
            self._show(*self._painted, text=False, picture=True)

    def action_tokens(self) -> None:
        """In the replies, show who wrote each token, or the text again."""
        if self._server:
            self.prompt_bar.hint("A server does not say which tokens were drafted.")
            return
        self.toggle_class("-tokens")
        shown = self.has_class("-tokens")
        if not shown and isinstance(self.focused, TokenView):
            self.tree_view.focus()
        self.transcript.show_tokens(shown)
        if self.transcript.token_view is not None:
            self.prompt_bar.hint("Who wrote what: tab goes to the tokens, h shows the text again.")

    def on_token_view_round_wanted(self, message: TokenView.RoundWanted) -> None:
        """The tree shows where a token comes from; while a reply is written it shows that one."""
        if self.busy:
            self.prompt_bar.hint("The tree follows the reply under way: open the round when that is over.")
        else:
            self.tree_view.look_at(message.rounds, message.token)

    def action_scroll_chat(self, pages: int) -> None:
        """Scroll the conversation while writing."""
        self.transcript.scroll_pages(pages)
