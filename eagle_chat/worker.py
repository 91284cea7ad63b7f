"""The one thread that owns the session. It appends events to `inbox`; it never waits for the screen.

No torch here: the session comes from a factory that runs inside this thread, after the first frame.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from eagle_chat.conversation_recorder import Recorder
from eagle_chat.conversations import Library, SavedConversation
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EagleChatError
from eagle_chat.events import Event, Failed, Finished, Loading, Note, Paused, Ready, RoundDone, SessionInfo
from eagle_chat.gate import Gate

log = logging.getLogger(__name__)


class Session(Protocol):
    """A conversation with loaded models. Its iterators look at `stop` between rounds and finish early."""

    info: SessionInfo

    def ask(self, prompt: str, *, seed: int | None, stop: threading.Event) -> Iterator[Event]:
        """Started, Prefill…, RoundDone…, Finished. Appended to the conversation, also when stopped."""

    def again(self, *, method: str, stop: threading.Event) -> Iterator[Event]:
        """The last prompt once more: same seed, other method, conversation unchanged."""

    def regenerate(self, *, seed: int | None, stop: threading.Event) -> Iterator[Event]:
        """The last reply replaced by a new one."""

    def new_chat(self) -> None:
        """Forget the conversation."""

    def restore(self, messages: Sequence[dict[str, str]]) -> None:
        """Go on after these messages."""


SessionFactory = Callable[[Callable[[Loading], None]], Session]
Request = Callable[[Session, threading.Event], Iterator[Event] | None]


class Worker(threading.Thread):
    """Makes the session, then serves requests in order until `quit`."""

    def __init__(self, make_session: SessionFactory, recorder: Recorder | None = None) -> None:
        super().__init__(name="eagle-chat engine", daemon=True)
        self.inbox: deque[Event] = deque()  # append and popleft are atomic: no lock, nothing lost
        self.exit_code = EXIT_DONE  # of the failure that ended the thread
        self.recorder = recorder or Recorder(Library(), saves=False)
        self._make_session = make_session
        self._requests: queue.SimpleQueue[tuple[Request, threading.Event] | None] = queue.SimpleQueue()
        self._newest_stop = self._running_stop = threading.Event()
        self._quitting = threading.Event()
        self._gate = Gate()

    def ask(self, prompt: str, *, seed: int | None = None) -> None:
        """Queue a prompt."""
        self._submit(lambda session, stop: session.ask(prompt, seed=seed, stop=stop))

    def again(self, *, method: str) -> None:
        """Queue the last prompt with another method."""
        self._submit(lambda session, stop: session.again(method=method, stop=stop))

    def regenerate(self, *, seed: int | None = None) -> None:
        """Queue a new reply to the last prompt."""
        self._submit(lambda session, stop: session.regenerate(seed=seed, stop=stop))

    def new_chat(self) -> None:
        """Queue a fresh conversation."""

        def request(session: Session, _stop: threading.Event) -> None:
            session.new_chat()
            self.recorder.leave()

        self._submit(request)

    def resume(self, conversation: SavedConversation) -> None:
        """Queue a saved conversation, to go on with."""

        def request(session: Session, _stop: threading.Event) -> None:
            session.restore(conversation.messages())
            self._note(self.recorder.resume(conversation, session.info))

        self._submit(request)

    def pause(self) -> None:
        """Wait after the round under way. `Paused` says when that is."""
        self._gate.close()

    def go_on(self) -> None:
        """Let it decode again."""
        self._gate.open()

    def step(self) -> None:
        """Go on for one round, then wait again."""
        self._gate.let_one()

    def stop(self) -> None:
        """End what runs between rounds, paused or not, and the newest request also before it has begun."""
        self._running_stop.set()
        self._newest_stop.set()
        self._gate.open()

    def quit(self) -> None:
        """End the thread after the round it is in; requests still queued are dropped."""
        self._quitting.set()
        self.stop()
        self._requests.put(None)

    def run(self) -> None:
        """Body of the thread."""
        session = self._load()
        if session is None:
            return
        while (request := self._requests.get()) is not None:
            self._serve(session, *request)

    def _submit(self, request: Request) -> None:
        # one flag per request: stopping one that has not begun must not be forgotten when it does
        self._newest_stop = threading.Event()
        self._requests.put((request, self._newest_stop))

    def _load(self) -> Session | None:
        try:
            session = self._make_session(self._progress)
        except BaseException as error:  # a library that calls exit() must not leave the screen waiting
            if not self._quitting.is_set():
                self.exit_code = error.exit_code if isinstance(error, EagleChatError) else EXIT_FAILURE
                self.inbox.append(Failed(sentence_about(error, "Loading failed"), fatal=True))
            return None
        self.inbox.append(Ready(session.info))
        return session

    def _progress(self, event: Loading) -> None:
        if self._quitting.is_set():
            raise EagleChatError("Loading was interrupted.")
        self.inbox.append(event)

    def _serve(self, session: Session, request: Request, stop: threading.Event) -> None:
        self._running_stop = stop
        if self._quitting.is_set():
            return
        try:
            events = request(session, stop)
            if events is not None and not self._pass_on(session, events):
                self._put(session, Failed("The reply ended without a result."))
        except BaseException as error:
            self._put(session, Failed(sentence_about(error, "The reply failed")))

    def _pass_on(self, session: Session, events: Iterator[Event]) -> bool:
        """Whether the reply came to its end."""
        finished = False
        for event in events:
            self._put(session, event)
            finished = isinstance(event, Finished)
            if isinstance(event, RoundDone):
                self._wait_at_gate()
        return finished

    def _put(self, session: Session, event: Event) -> None:
        """Recorded first: what is on screen is saved."""
        note = self.recorder.take(event, session.info)
        self.inbox.append(event)
        self._note(note)

    def _wait_at_gate(self) -> None:
        """The session's generator waits with us, and the engine's clock stands still while it does."""
        if self._gate.closed:
            self.inbox.append(Paused())
        self._gate.wait()

    def _note(self, text: str | None) -> None:
        if text:
            self.inbox.append(Note(text))


def sentence_about(error: BaseException, what: str) -> str:
    """One sentence for the user; what is not ours goes to the log with its traceback."""
    if isinstance(error, EagleChatError):
        return str(error)
    log.error("%s", what, exc_info=error)
    reason = str(error).strip().partition("\n")[0]
    return f"{what} ({type(error).__name__}{': ' if reason else ''}{reason}); details are in the log file."
