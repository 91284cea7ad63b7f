"""The engine waits between two rounds: for how long is for the user, and nothing waits for ever."""

import threading

import pytest

from eagle_chat.events import Event, Finished, Paused, RoundDone, Started
from eagle_chat.gate import Gate
from eagle_chat.summary import STOPPED_BY_USER
from eagle_chat.worker import Worker
from tests.eagle_chat.fake_session import SKY, FakeSession
from tests.eagle_chat.test_worker import ended, started, wait_for


def paused(session: FakeSession) -> tuple[Worker, list[Event]]:
    """A worker that waits after the first round of a reply."""
    worker = started(session)
    worker.pause()
    worker.ask("one")
    return worker, wait_for(worker, Paused)


def rounds(events: list[Event]) -> int:
    return sum(isinstance(event, RoundDone) for event in events)


def stepped(worker: Worker) -> int:
    """Rounds that come before it waits again."""
    worker.inbox.clear()
    worker.step()
    return rounds(wait_for(worker, Paused))


def test_it_waits_after_the_round_and_steps_by_one() -> None:
    """Catches a pause that the rounds run past, or a step of more than one."""
    worker, events = paused(FakeSession())
    assert (rounds(events), type(events[-1])) == (1, Paused)
    assert [stepped(worker) for _ in range(3)] == [1, 1, 1]
    worker.inbox.clear()
    worker.go_on()
    events = wait_for(worker, Finished)
    assert events[-1].text == SKY
    assert not any(isinstance(event, Paused) for event in events)
    ended(worker)


def test_no_round_has_begun_while_it_waits() -> None:
    """Catches a request that is held inside a round, where the pause would count as its time."""
    begun: list[int] = []

    class Counted(FakeSession):
        def _wait(self, stop: threading.Event) -> None:
            begun.append(1)

    worker, _ = paused(Counted())
    assert len(begun) == 1
    for done in (2, 3, 4):
        stepped(worker)
        assert len(begun) == done
    ended(worker)


def test_stop_ends_a_paused_reply() -> None:
    """Catches an esc that waits for somebody to press p."""
    worker, _ = paused(FakeSession())
    worker.stop()
    assert wait_for(worker, Finished)[-1].summary["stopped_by"] == STOPPED_BY_USER
    worker.inbox.clear()
    worker.ask("two")
    assert wait_for(worker, Finished)[-1].text == SKY
    ended(worker)


def test_quitting_while_paused_is_quick() -> None:
    """Catches a thread that sits at the gate while the program wants to end."""
    worker, _ = paused(FakeSession())
    assert ended(worker) < 0.5


def test_a_new_chat_while_paused() -> None:
    """Catches a request behind a paused reply that is never served."""
    session = FakeSession()
    worker, _ = paused(session)
    worker.new_chat()
    worker.stop()
    worker.ask("two")
    wait_for(worker, Finished)
    events = wait_for(worker, Finished) if session.new_chats else []
    assert session.new_chats == 1
    assert any(isinstance(event, Started) for event in events)
    ended(worker)


@pytest.mark.parametrize("before", ["open", "closed"])
def test_the_gate(before: str) -> None:
    """Catches a permit that is lost, or one that is left over and lets a later round through."""
    gate = Gate()
    if before == "closed":
        gate.close()
        assert gate.closed
        gate.let_one()
        gate.let_one()
        gate.wait()
        assert not gate.closed
        gate.wait()
        assert gate.closed
        gate.let_one()
        gate.open()
    for _ in range(3):
        gate.wait()
    assert not gate.closed
