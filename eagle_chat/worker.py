"""The one thread that owns the session. It appends events to `inbox`; it never waits for the screen.

No torch here: the session comes from a factory that runs inside this thread, after the first frame.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from eagle_chat.choices import Choices
from eagle_chat.conversation import Turn
from eagle_chat.conversation_recorder import Recorder
from eagle_chat.conversations import Library, SavedConversation
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EagleChatError
from eagle_chat.events import (
    Changed,
    Event,
    Failed,
    Finished,
    Loading,
    Note,
    Paused,
    Ready,
    Refused,
    RoundDone,
    SessionInfo,
)
from eagle_chat.gate import Gate
from eagle_chat.saved_choices import saved_choices

log = logging.getLogger(__name__)


class Session(Protocol):
    """A conversation with loaded models. Its iterators look at `stop` between rounds and finish early."""

    info: SessionInfo
    choices: Choices

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that replies can be decoded with."""

    def ask(self, prompt: str, *, seed: int | None, stop: threading.Event) -> Iterator[Event]:
        """Started, Prefill…, RoundDone…, Finished. Appended to the conversation, also when stopped."""

    def again(self, *, method: str, stop: threading.Event) -> Iterator[Event]:
        """The last prompt once more: same seed, other method, conversation unchanged."""

    def regenerate(self, *, seed: int | None, stop: threading.Event) -> Iterator[Event]:
        """The last reply replaced by a new one."""

    def new_chat(self) -> None:
        """Forget the conversation."""

    def restore(self, messages: Sequence[dict[str, str]], choices: Choices) -> None:
        """Go on after these messages, decoded as chosen until a new chat."""

    def change(self, choices: Choices) -> None:
        """Decode what follows as chosen. Raises UsageError, and changes nothing, for what cannot be."""

    def go_on_after(self, turns: Sequence[Turn]) -> None:
        """Go on after these turns."""

    def close(self) -> None:
        """Give the memory back."""


Progress = Callable[[Loading], None]
SessionFactory = Callable[[Progress], Session]
Request = Callable[[Session, threading.Event], Iterator[Event] | None]


@dataclass(frozen=True, slots=True)
class Replacement:
    """Another model: `find` its weights while the one before is still there, then `load` them."""

    find: Callable[[Progress], None]
    load: SessionFactory


class Worker(threading.Thread):
    """Makes the session, then serves requests in order until `quit`."""

    def __init__(self, make_session: SessionFactory, recorder: Recorder | None = None) -> None:
        super().__init__(name="eagle-chat engine", daemon=True)
        self.inbox: deque[Event] = deque()  # append and popleft are atomic: no lock, nothing lost
        self.exit_code = EXIT_DONE  # of the failure that ended the thread
        self.recorder = recorder or Recorder(Library(), saves=False)
        self._make_session = make_session
        self._session: Session | None = None
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
            before = session.choices
            session.new_chat()
            self.recorder.leave()
            if session.choices != before:
                self.inbox.append(Changed(session.info, session.choices))

        self._submit(request, is_reply=False)

    def resume(self, conversation: SavedConversation) -> None:
        """Queue a saved conversation, to go on with."""

        def request(session: Session, _stop: threading.Event) -> None:
            had, given = conversation.session, self.recorder.given
            choices = saved_choices(had, session.choices, session.methods, given)
            try:
                session.restore(conversation.messages(), choices)
            except EagleChatError as error:  # its head cannot be loaded now: the text does not depend on it
                self._note(str(error))
                choices = replace(choices, method=session.choices.method)
                session.restore(conversation.messages(), choices)
            self._note(self.recorder.resume(conversation, session.info))
            self.inbox.append(Ready(replace(session.info, notes=()), session.choices, session.methods))

        self._submit(request, is_reply=False)

    def pause(self) -> None:
        """Wait after the round under way. `Paused` says when that is."""
        self._gate.close()

    def go_on(self) -> None:
        """Let it decode again."""
        self._gate.open()

    def step(self) -> None:
        """Go on for one round, then wait again."""
        self._gate.let_one()

    def change(self, choices: Choices) -> None:
        """Queue new settings, for the replies after it."""
        self._submit(lambda session, _: self._change(session, choices), is_reply=False)

    def go_on_after(self, turns: Sequence[Turn]) -> None:
        """Queue another conversation, to go on from."""
        self._submit(lambda session, _: session.go_on_after(turns), is_reply=False)

    def switch(self, other: Replacement, turns: Sequence[Turn]) -> None:
        """Queue another model, which goes on after `turns`; where it fails the one before is loaded again."""
        self._submit(lambda session, _: self._switch(session, other, turns), is_reply=False)

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
        self._load()
        while self._session is not None and (request := self._requests.get()) is not None:
            self._serve(self._session, *request)

    def _submit(self, request: Request, *, is_reply: bool = True) -> None:
        # one flag per request: stopping one that has not begun must not be forgotten when it does
        stop = threading.Event()
        if is_reply:
            self._newest_stop = stop
        self._requests.put((request, stop))

    def _load(self, problem: str = "") -> None:
        try:
            self._session = self._make_session(self._progress)
        except BaseException as error:  # a library that calls exit() must not leave the screen waiting
            if not self._quitting.is_set():
                self.exit_code = error.exit_code if isinstance(error, EagleChatError) else EXIT_FAILURE
                sentences = filter(None, (problem, sentence_about(error, "Loading failed")))
                self.inbox.append(Failed("\n".join(sentences), fatal=True))
            return
        if not problem:
            self._ready(self._session)

    def _ready(self, session: Session) -> None:
        self.inbox.append(Ready(session.info, session.choices, session.methods))

    def _change(self, session: Session, choices: Choices) -> None:
        try:
            session.change(choices)
        except EagleChatError as error:
            self.inbox.append(Refused(str(error)))
        else:
            self.inbox.append(Changed(session.info, session.choices))

    def _switch(self, session: Session, other: Replacement, turns: Sequence[Turn]) -> None:
        before = session.choices
        try:
            other.find(self._progress)
            self._session = None
            session.close()
            self._session = other.load(self._progress)
            self._session.go_on_after(turns)
        except BaseException as error:
            problem = sentence_about(error, "Loading failed")
        else:
            self._make_session = other.load
            self._ready(self._session)
            return
        if self._session is not session:  # the memory was needed: nothing of the one before is left
            self._load(problem)
            if self._session is None:
                return
            self._session.change(before)
            self._session.go_on_after(turns)
        self.inbox.append(Refused(f"{problem.rstrip('.')}; {self._session.info.model} stays."))
        info = replace(self._session.info, notes=())  # they have been read
        self.inbox.append(Ready(info, self._session.choices, self._session.methods))

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
