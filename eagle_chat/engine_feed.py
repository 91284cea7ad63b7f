"""What the engine says, on screen: attributes every event to a reply and paints within the frame budget."""

from collections.abc import Callable

from eagle_chat.calibration import Calibration
from eagle_chat.choices import DEFAULTS
from eagle_chat.conversation import Conversation
from eagle_chat.events import (
    Arrived,
    Changed,
    Event,
    Failed,
    Finished,
    Loading,
    Note,
    Paused,
    Prefill,
    Ready,
    Refused,
    RoundDone,
    ServerSays,
    SessionInfo,
    Started,
)
from eagle_chat.figures import Figures
from eagle_chat.frame_budget import FrameBudget
from eagle_chat.pausing import Pausing
from eagle_chat.process_memory import resident_bytes
from eagle_chat.reply import Reply
from eagle_chat.screens.chat import ChatScreen
from eagle_chat.screens.compare import CompareScreen


class EngineFeed:
    """Takes events in order. `over` is called whenever nothing runs any more, after it was shown."""

    def __init__(
        self, chat: ChatScreen, budget: FrameBudget, pausing: Pausing, over: Callable[[], None]
    ) -> None:
        self.info: SessionInfo | None = None
        self.conversation = Conversation()
        self.methods: tuple[str, ...] = ()
        self.choices = DEFAULTS  # as the user wants it; the session follows when its turn comes
        self.comparison: CompareScreen | None = None
        self.replacing = False  # the next reply takes the place of the last one
        self._chat = chat
        self._budget = budget
        self._pausing = pausing
        self._over = over
        self.calibration = Calibration()  # of the conversation
        self._unpainted = False  # something came, or somebody moved, since the last frame
        self._running: Reply | None = None
        self._decoding = DEFAULTS  # as the session has it
        self._discarding = False  # what still arrives belongs to a conversation that was left

    @property
    def reply(self) -> Reply | None:
        """The newest of the conversation."""
        return self.conversation.newest

    @property
    def replies(self) -> list[Reply]:
        """All of the conversation."""
        return [entry.reply for entry in self.conversation.entries if entry.reply]

    def leave(self, *, running: bool) -> None:
        """The conversation is left, maybe in the middle of a reply."""
        self._discarding = running
        self._running = None
        self.conversation.clear()
        self.calibration = Calibration()

    def show_conversation(self) -> None:
        """Put the conversation on screen anew: it is another one, or another version."""
        self._chat.show(self.conversation.entries)
        if self.reply is not None:
            self._show_settings(self.reply.seed)
            self._chat.paint(self.reply, self._figures(self.reply), text=False, picture=True)

    def take(self, event: Event) -> None:
        """Attribute one event. Fatal failures are not for here."""
        self._unpainted = True
        match event:
            case Loading():
                self._chat.status.state(event.text())
            case Ready():
                self._ready(event)
            case Changed() | Refused():
                self._answered(event)
            case Note(text):
                self._chat.transcript.note(text)
            case Finished() | Failed() if self._discarding:
                self._end("ready")
            case _ if self._discarding:
                pass
            case Started():
                self._started(event)
            case Failed(message):
                self._failed(message)
            case Paused():
                self._pausing.reached()
            case Prefill() | RoundDone() | Arrived() | ServerSays() if self._running is not None:
                self._running.add(event)
                if isinstance(event, RoundDone) and self._running is self.reply:
                    self.calibration.add(event.record)
            case Finished() if self._running is not None:
                self._running.add(event)
                self._finished(self._running)

    def paint(self) -> None:
        """Show the newest state of what runs, if that is due."""
        reply = self._running
        if reply is None or (self._pausing.waiting and not self._unpainted):
            return
        text, picture = self._budget.text_due(), self._budget.picture_due()
        if not (text or picture):
            return
        if reply is self.reply:
            self._chat.paint(reply, self._figures(reply), text=text, picture=picture)
        elif self.comparison is not None:
            self.comparison.paint()
        if picture:
            self._show_state(reply)
        self._budget.painted(text=text, picture=picture)
        self._unpainted = False

    def look_again(self) -> None:
        """Somebody moved through the rounds or wants the engine to wait: the screen says so soon."""
        self._unpainted = True

    def _show_state(self, reply: Reply) -> None:
        """The badge: the engine's pause before the view's, and both before the round."""
        behind = self._chat.behind(reply)
        if self._pausing.waiting:
            self._chat.status.state("❚❚ engine paused", kind="stopped")
        elif self._pausing.wanted:
            self._chat.status.state("pausing…", kind="stopped")
        elif behind is not None:
            self._chat.status.state(f"❚❚ {behind} round{'s' * (behind != 1)} behind", kind="stopped")
        else:
            self._chat.status.state(_progress(reply), kind="live")

    def _ready(self, event: Ready) -> None:
        self.info, self.methods = event.info, event.methods
        self.choices = self._decoding = event.choices
        self._chat.loaded(event.info)
        self._show_settings(event.choices.seed)
        for note in event.info.notes:
            self._chat.transcript.note(note)
        self._end("ready")

    def _answered(self, event: Changed | Refused) -> None:
        """The session took what was chosen, or stays as it is."""
        if isinstance(event, Refused):
            self.choices = self._decoding
            self._chat.transcript.note(f"✗ {event.message}")
        else:
            if self.choices == self._decoding:  # else the user is ahead
                self.choices = event.choices
            self.info, self._decoding = event.info, event.choices
            self._show_settings(event.choices.seed)

    def _started(self, event: Started) -> None:
        self._running = Reply(event, self.info)
        self._budget.start()
        if event.again:
            if self.comparison is not None:
                self.comparison.begin(self._running)
            return
        self.conversation.begins(self._running)
        self._chat.begin(replacing=self.replacing)
        self.replacing = False
        self._show_settings(event.seed)

    def _finished(self, reply: Reply) -> None:
        self._show_end(reply)
        if reply.stopped:
            self._end("■ stopped", kind="stopped")
        else:
            self._end("ready")

    def _failed(self, message: str) -> None:
        if self._running is None:
            self._chat.transcript.note(f"✗ {message}")
        else:
            self._running.fail(message)
            self._show_end(self._running)
        self._end("✗ failed", kind="failed")

    def _show_end(self, reply: Reply) -> None:
        self._budget.stop()
        if reply is self.reply:
            self._chat.end(reply, self._figures(reply))
            return
        if self.reply is not None and reply.method == "none" and not reply.stopped and reply.problem is None:
            self.reply.plain_speed = reply.summary.get("tokens_per_second")
            self._chat.paint(self.reply, self._figures(self.reply), text=False, picture=True)
        if self.comparison is not None:
            self.comparison.paint()

    def _end(self, state: str, *, kind: str = "") -> None:
        self._running = self.comparison = None
        self._discarding = self.replacing = False
        self._chat.status.state(state, kind=kind)
        self._over()

    def _show_settings(self, seed: int | None) -> None:
        if self.info is not None:
            self._chat.status.loaded(self.info, seed, self._decoding.filters())

    def _figures(self, reply: Reply) -> Figures:
        context, kv = (self.info.context, self.info.kv_token_bytes) if self.info else (0, 0)
        return Figures(context, self._budget.share, reply.plain_speed, kv, resident_bytes(), self.calibration)


def _progress(reply: Reply) -> str:
    if reply.server is not None:
        return f"▶ piece {reply.server.pieces}" if reply.server.pieces else "▶ waiting"
    if reply.newest is not None and reply.newest.index > 0:
        return f"▶ round {reply.newest.index}"
    if reply.prefill is not None:
        return f"▶ prefill {reply.prefill.done}/{reply.prefill.total}"
    return "▶ prefill"
