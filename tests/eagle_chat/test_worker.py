"""The engine thread: requests in, events out, and an end that does not take long."""

import threading
import time
from dataclasses import replace

from eagle_chat.choices import Choices
from eagle_chat.conversation import Turn
from eagle_chat.errors import EXIT_USAGE, EagleChatError, UsageError
from eagle_chat.events import Changed, Event, Failed, Finished, Loading, Ready, Refused, RoundDone, Started
from eagle_chat.summary import STOPPED_BY_USER
from eagle_chat.worker import Replacement, Worker
from tests.eagle_chat.fake_session import INFO, SKY, FakeSession, factory


def wait_for(worker: Worker, kind: type, seconds: float = 5.0) -> list[Event]:
    """The inbox once an event of `kind` is in it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        events = list(worker.inbox)
        if any(isinstance(event, kind) for event in events):
            return events
        time.sleep(0.005)
    raise AssertionError(f"no {kind.__name__} in {list(worker.inbox)}")


def started(session: FakeSession) -> Worker:
    worker = Worker(factory(session))
    worker.start()
    wait_for(worker, Ready)
    worker.inbox.clear()
    return worker


def ended(worker: Worker) -> float:
    """Seconds the thread takes to end after `quit`."""
    began = time.monotonic()
    worker.quit()
    worker.join(3)
    assert not worker.is_alive()
    return time.monotonic() - began


def test_events_arrive_in_order() -> None:
    """Catches events that are lost or overtake each other between the threads."""
    worker = Worker(factory(FakeSession()))
    worker.start()
    worker.ask("Why is the sky blue?")
    events = wait_for(worker, Finished)
    ended(worker)
    assert [type(event) for event in events[:3]] == [Loading, Ready, Started]
    assert "".join(event.text for event in events if isinstance(event, RoundDone)) == SKY
    assert events[-1].text == SKY


def test_stop_ends_between_rounds_and_the_next_request_runs() -> None:
    """Catches a stop flag that stays set and cuts the reply after the one it was meant for."""
    pace = threading.Semaphore(3)
    session = FakeSession(pace=pace)
    worker = started(session)
    worker.ask("one")
    wait_for(worker, RoundDone)
    worker.stop()
    events = wait_for(worker, Finished)
    assert events[-1].summary["stopped_by"] == STOPPED_BY_USER
    assert SKY.startswith(events[-1].text)
    worker.inbox.clear()
    session.pace = None
    worker.ask("two")
    assert wait_for(worker, Finished)[-1].text == SKY
    ended(worker)


def test_stop_before_the_request_begins() -> None:
    """Catches a stop that is forgotten because the request it was meant for had not begun."""
    loaded = threading.Event()

    def slow(progress: object) -> FakeSession:
        loaded.wait(5)
        return FakeSession()

    worker = Worker(slow)
    worker.start()
    worker.ask("one")
    worker.stop()
    loaded.set()
    assert wait_for(worker, Finished)[-1].summary["stopped_by"] == STOPPED_BY_USER
    ended(worker)


def test_an_exception_becomes_a_sentence_and_the_worker_goes_on() -> None:
    """Catches a thread that dies silently with the first exception, leaving the screen waiting for ever."""
    session = FakeSession(fail_at=2)
    worker = started(session)
    worker.ask("one")
    failed = wait_for(worker, Failed)[-1]
    assert not failed.fatal
    assert "ValueError: shapes [8, 576] do not match" in failed.message
    session.fail_at = None
    worker.ask("two")
    assert wait_for(worker, Finished)[-1].text == SKY
    ended(worker)


def test_a_reply_without_a_result_is_reported() -> None:
    """Catches a session that returns early: without an end the screen would wait for ever."""
    session = FakeSession()
    session.ask = lambda prompt, *, seed, stop: iter((Started(prompt, "eagle2", 1),))  # type: ignore[method-assign]
    worker = started(session)
    worker.ask("one")
    assert "without a result" in wait_for(worker, Failed)[-1].message
    ended(worker)


def test_a_failing_factory_is_fatal_and_carries_its_exit_code() -> None:
    """Catches a start-up error that loses its sentence or its exit code on the way through the thread."""

    def broken(progress: object) -> FakeSession:
        raise UsageError("No model called 'llama9'. Try smollm2-135m.")

    worker = Worker(broken)
    worker.start()
    failed = wait_for(worker, Failed)[-1]
    worker.join(3)
    assert failed == Failed("No model called 'llama9'. Try smollm2-135m.", fatal=True)
    assert worker.exit_code == EXIT_USAGE
    assert not worker.is_alive()


def test_a_library_that_exits_does_not_leave_the_screen_waiting() -> None:
    """Catches `except Exception` around the factory: SystemExit ends a thread without a word."""

    def exits(progress: object) -> FakeSession:
        raise SystemExit(3)

    worker = Worker(exits)
    worker.start()
    assert wait_for(worker, Failed)[-1].fatal


def test_quitting_is_quick_when_idle_and_while_a_reply_runs() -> None:
    """Catches a quit that waits for the whole reply."""
    assert ended(started(FakeSession())) < 0.5
    worker = started(FakeSession(SKY * 20, delay=0.02))
    worker.ask("one")
    worker.ask("another that must not begin")
    wait_for(worker, RoundDone)
    assert ended(worker) < 0.5
    assert sum(isinstance(event, Started) for event in worker.inbox) == 1


def test_quitting_while_loading_ends_at_the_next_progress_report() -> None:
    """Catches a download that goes on after the user has left, and an error message about it."""
    entered = threading.Event()

    def endless(progress) -> FakeSession:  # type: ignore[no-untyped-def]
        while True:
            progress(Loading("downloading", 1, 100))
            entered.set()
            time.sleep(0.01)

    worker = Worker(endless)
    worker.start()
    assert entered.wait(3)
    assert ended(worker) < 0.5
    assert not any(isinstance(event, Failed) for event in worker.inbox)


def test_known_errors_keep_their_sentence() -> None:
    """Catches wrapping of our own sentences into 'something went wrong'."""
    session = FakeSession()

    def full(prompt: str, *, seed: int | None, stop: threading.Event):  # type: ignore[no-untyped-def]
        raise EagleChatError("The conversation is longer than 2048 tokens; start a new chat with ctrl+n.")

    session.ask = full  # type: ignore[method-assign]
    worker = started(session)
    worker.ask("one")
    assert wait_for(worker, Failed)[-1].message.startswith("The conversation is longer")
    ended(worker)


def switched(replacement: Replacement, old: FakeSession, turns: list[Turn]) -> list[Event]:
    """What a worker with `old` tells when it is given another model."""
    worker = started(old)
    worker.switch(replacement, turns)
    events = wait_for(worker, Ready)
    ended(worker)
    return events


def test_another_model_takes_over() -> None:
    """Catches an old model that stays in memory, and a new one that knows nothing of the conversation."""
    old, new = FakeSession(), FakeSession(info=replace(INFO, model="llama3-8b"))
    events = switched(Replacement(lambda progress: None, factory(new)), old, [Turn("one", "reply")])
    assert [event.info.model for event in events if isinstance(event, Ready)] == ["llama3-8b"]
    assert old.closed
    assert new.restored == [["one"]]


def test_a_model_that_does_not_load_leaves_the_one_before() -> None:
    """Catches a failure while loading that leaves no model, other settings or another conversation."""
    old = FakeSession()
    old.choices = replace(old.choices, temperature=0.7)

    def load(progress: object) -> FakeSession:
        old.choices = Choices(method="eagle2")  # as it is when it is loaded anew
        raise EagleChatError("The weights are damaged.")

    events = switched(Replacement(lambda progress: None, load), old, [Turn("one", "reply")])
    refused = next(event for event in events if isinstance(event, Refused))
    assert refused.message == "The weights are damaged; smollm2-135m stays."
    assert old.choices.temperature == 0.7
    assert old.restored == [["one"]]


def test_a_setting_that_waits_does_not_take_a_stop() -> None:
    """Catches a reply that cannot be stopped before it begins because a setting was changed after it."""
    loaded = threading.Event()
    session = FakeSession()

    def slow(progress: object) -> FakeSession:
        loaded.wait(5)
        return session

    worker = Worker(slow)
    worker.start()
    worker.ask("one")
    worker.change(replace(session.choices, temperature=0.5))
    worker.stop()
    loaded.set()
    wait_for(worker, Changed)
    events = wait_for(worker, Finished)
    assert next(event for event in events if isinstance(event, Finished)).text == ""
    ended(worker)
