"""Saved conversations: what is written while they grow, and what is read back of it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from eagle_chat.choices import Choices
from eagle_chat.conversation_recorder import Recorder
from eagle_chat.conversations import Library, SavedConversation
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Event, Failed, Started
from tests.eagle_chat.fake_session import INFO, SKY, FakeSession

KILLED = """
import os, signal, sys, threading
from pathlib import Path
from eagle_chat.conversation_recorder import Recorder
from eagle_chat.conversations import Library
from eagle_chat.events import RoundDone
from tests.eagle_chat.fake_session import FakeSession

session, recorder = FakeSession(), Recorder(Library(Path(sys.argv[1])))
for event in session.ask("Why is the sky blue?", seed=7, stop=threading.Event()):
    recorder.take(event, session.info)
    if isinstance(event, RoundDone) and event.record.index == 4:
        os.kill(os.getpid(), signal.SIGKILL)
"""


class Chat:
    """A scripted session whose events are recorded."""

    def __init__(self, library: Library, session: FakeSession | None = None) -> None:
        self.session = session or FakeSession()
        self.recorder = Recorder(library)
        self.notes: list[str] = []

    def take(self, event: Event) -> None:
        note = self.recorder.take(event, self.session.info)
        self.notes += [note] if note else []

    def ask(self, prompt: str, text: str = SKY) -> None:
        self.session.text = text
        for event in self.session.ask(prompt, seed=None, stop=threading.Event()):
            self.take(event)

    def regenerate(self, stop: threading.Event) -> None:
        for event in self.session.regenerate(seed=None, stop=stop):
            self.take(event)

    def resume(self, conversation: SavedConversation) -> None:
        self.session.restore(conversation.messages(), self.session.choices)
        note = self.recorder.resume(conversation, self.session.info)
        self.notes += [note] if note else []


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "conversations")


@pytest.fixture
def talk(library: Library) -> Chat:
    return Chat(library)


def only(library: Library) -> SavedConversation:
    """The one conversation there is."""
    (found,), problems = library.all()
    assert problems == []
    return found


def said(conversation: SavedConversation) -> list[tuple[str, str]]:
    return [(turn.prompt, turn.reply) for turn in conversation.turns]


def test_what_is_kept_of_a_conversation(library: Library, talk: Chat) -> None:
    """Catches a figure, a setting or a text that is not there when the conversation is read back."""
    talk.ask("Why is the sky\nblue?")
    talk.ask("Ünd\u2028the sea?", "Because.\r\n")
    found = only(library)
    assert said(found) == [("Why is the sky\nblue?", SKY), ("Ünd\u2028the sea?", "Because.\r\n")]
    assert found.title == "Why is the sky blue?"
    assert found.model == "smollm2-135m"
    kept = {
        "weights_sha256": "0" * 64,
        "method": "eagle2",
        "dtype": "fp32",
        "choices": asdict(Choices("eagle2")),
        "system": None,
    }
    assert found.session.items() >= kept.items()
    end = found.turns[0].end
    assert end is not None
    figures = {"new_tokens": 42, "seed": 1234, "temperature": 0.0, "stopped_by": "stop token"}
    assert end.items() >= figures.items()
    assert {"tau", "tokens_per_second", "rounds"} <= end.keys()
    assert found.created <= found.turns[0].at <= found.updated
    assert found.messages() == talk.session.messages


def test_others_on_the_machine_cannot_read_it(library: Library, talk: Chat) -> None:
    """Catches private talk in files that everybody may read."""
    before = os.umask(0)
    try:
        talk.ask("secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE(library.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(library.path(only(library).id).stat().st_mode) == 0o600


def test_a_killed_program_loses_at_most_the_current_round(library: Library) -> None:
    """Catches text that waits in a buffer of ours while the reply goes on."""
    done = subprocess.run([sys.executable, "-c", KILLED, library.folder], check=False)
    assert done.returncode == -signal.SIGKILL
    found = only(library)
    assert said(found) == [("Why is the sky blue?", "The sky is blue because of a process")]
    assert found.turns[0].cut_off
    assert found.messages()[-1]["content"].endswith("process")


def test_a_line_cut_in_the_middle(library: Library, talk: Chat) -> None:
    """Catches a torn last line that costs the rest, or is grown into garbage by what comes after it."""
    talk.ask("one")
    path = library.path(only(library).id)
    path.write_bytes(path.read_bytes()[:-9])
    torn = only(library)
    assert said(torn) == [("one", SKY)]
    assert torn.turns[0].cut_off
    later = Chat(library)
    later.resume(torn)
    later.ask("two")
    found, problems = library.all()
    assert problems == []
    assert said(found[0]) == [("one", SKY), ("two", SKY)]


def test_a_damaged_file_is_set_aside(library: Library, talk: Chat) -> None:
    """Catches one bad file that hides all conversations, or is overwritten or deleted."""
    talk.ask("one")
    talk.recorder.leave()
    talk.session.new_chat()
    talk.ask("two")
    bad = library.path(library.all()[0][1].id)
    spoilt = bad.read_bytes().replace(b'"text"', b'"tex')
    bad.write_bytes(spoilt)
    found, (problem,) = library.all()
    assert [each.title for each in found] == ["two"]
    assert f"the conversation {bad.stem} is damaged (line 4)" in problem
    assert bad.with_suffix(".damaged").read_bytes() == spoilt
    assert library.all()[1] == []
    bad.write_bytes(b"")
    assert "is damaged (line 1)" in library.all()[1][0]


def test_a_later_version_is_left_alone(library: Library, talk: Chat) -> None:
    """Catches an older program that sets a newer one's conversations aside."""
    talk.ask("one")
    path = library.path(only(library).id)
    newer = path.read_bytes().replace(b'"version":1', b'"version":2')
    path.write_bytes(newer)
    assert "newer eagle-chat" in library.all()[1][0]
    assert path.read_bytes() == newer


def test_two_programs_go_on_with_one_conversation(library: Library, talk: Chat) -> None:
    """Catches lines of two programs mixed in one file: a conversation that nobody had."""
    talk.ask("one")
    other = Chat(library)
    other.resume(only(library))
    other.ask("mine")
    talk.ask("ours")
    other.ask("mine again")
    found = {tuple(prompt for prompt, _ in said(each)) for each in library.all()[0]}
    assert found == {("one", "mine", "mine again"), ("one", "ours")}
    assert f"saved as {talk.recorder.conversation.id}" in talk.notes[0]  # type: ignore[union-attr]
    assert other.notes == []


def test_many_programs_at_once(library: Library) -> None:
    """Catches writers that get in each other's way."""
    code = KILLED.replace("== 4", "== -1")
    running = [subprocess.Popen([sys.executable, "-c", code, library.folder]) for _ in range(3)]
    assert [process.wait(20) for process in running] == [0, 0, 0]
    found, problems = library.all()
    assert problems == []
    assert [said(each) for each in found] == [[("Why is the sky blue?", SKY)]] * 3


def test_a_full_disk_is_said_once_and_all_is_saved_later(
    library: Library, talk: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a reply that is lost with the disk, a sentence a round, and text that is never saved."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2]))
    talk.ask("one")
    talk.ask("two")
    (note,) = talk.notes
    assert note == f"This chat goes on, but is not saved: No space left on device ({library.folder})."
    assert library.all() == ([], [])
    monkeypatch.undo()
    talk.ask("three")
    assert said(only(library)) == [("one", SKY), ("two", SKY), ("three", SKY)]
    assert len(talk.notes) == 1


def test_a_disk_that_is_full_for_a_moment(
    library: Library, talk: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches the rest of a reply that is not saved although there is room again when it ends."""
    talk.ask("one")
    rounds = talk.session.ask("two", seed=None, stop=threading.Event())
    for number, event in enumerate(rounds):
        if number == 4:
            monkeypatch.setattr(os, "write", lambda file, data: 0)
        if number == 8:
            monkeypatch.undo()
        talk.take(event)
    assert said(library.all()[0][0]) == [("one", SKY), ("two", SKY)]
    assert len(talk.notes) == 1


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """Catches an exception in the engine's thread over a place that cannot be written."""
    (tmp_path / "file").write_text("")
    talk = Chat(Library(tmp_path / "file" / "conversations"))
    talk.ask("one")
    assert "Not a directory" in talk.notes[0]


def test_a_conversation_deleted_elsewhere_stays_deleted(library: Library, talk: Chat) -> None:
    """Catches a conversation that comes back to the disk after its owner deleted it."""
    talk.ask("one")
    library.delete(only(library).id)
    talk.ask("two")
    assert library.all() == ([], [])
    assert talk.notes == ["This conversation was deleted elsewhere: what follows is not saved."]


def test_another_reply_takes_the_place_of_the_last(library: Library, talk: Chat) -> None:
    """Catches a regenerated reply that is saved as a turn of its own, or lost when it is stopped at once."""
    talk.ask("one")
    talk.ask("two")
    talk.regenerate(threading.Event())
    again = [("one", SKY), ("two", f"Again: {SKY}")]
    assert said(only(library)) == again
    stopped = threading.Event()
    stopped.set()
    talk.regenerate(stopped)
    assert said(only(library)) == again


def test_a_conversation_that_was_changed_above(library: Library, talk: Chat) -> None:
    """Catches turns that stay in the file although the model no longer sees them, or are missing there."""
    for prompt in ("one", "two", "three"):
        talk.ask(prompt)
    before = talk.session.messages
    talk.session.messages = before[:2]
    talk.ask("two, edited")
    assert [prompt for prompt, _ in said(only(library))] == ["one", "two, edited"]
    talk.session.messages = before
    talk.ask("four")
    assert [prompt for prompt, _ in said(only(library))] == ["one", "two", "three", "four"]


def test_a_failed_reply_and_a_comparison(library: Library, talk: Chat) -> None:
    """Catches a comparison saved as a reply, and a failure that leaves no word of why."""
    talk.ask("one")
    for event in talk.session.again(method="none", stop=threading.Event()):
        talk.take(event)
    assert said(only(library)) == [("one", SKY)]
    talk.take(Failed("there is no prompt to run again"))
    assert only(library).turns[-1].problem is None
    messages = [*talk.session.messages, {"role": "user", "content": "two"}]
    talk.take(Started("two", "eagle2", 5, messages=messages))
    talk.take(Failed("no memory"))
    last = only(library).turns[-1]
    assert (last.prompt, last.problem, last.cut_off) == ("two", "no memory", False)
    assert only(library).unanswered == "two"
    assert len(only(library).messages()) == 2
    talk.ask("three")
    assert [prompt for prompt, _ in said(only(library))] == ["one", "three"]


def test_nothing_is_saved_without_leave(library: Library) -> None:
    """Catches --no-save that writes all the same, also to what is resumed."""
    talk = Chat(library)
    talk.recorder.saves = False
    talk.ask("one")
    assert not library.folder.exists()
    Chat(library).ask("two")
    talk.resume(only(library))
    talk.ask("three")
    assert [prompt for prompt, _ in said(only(library))] == ["two"]
    assert talk.recorder.conversation is not None
    assert len(talk.recorder.conversation.turns) == 2


def test_going_on_with_another_model(library: Library, talk: Chat) -> None:
    """Catches a conversation of two models that does not say so, on screen or in its file."""
    talk.ask("one")
    other = Chat(library, FakeSession(info=replace(INFO, model="other", weights_sha256="1" * 64)))
    other.resume(only(library))
    assert other.notes == ["This conversation was held with smollm2-135m; other goes on with it."]
    other.ask("two")
    assert [turn.session["model"] for turn in only(library).turns] == ["smollm2-135m", "other"]


def test_finding_one(library: Library, talk: Chat) -> None:
    """Catches a search that minds case or order, and an id that leads elsewhere than to its file."""
    talk.ask("one")
    found = only(library)
    assert found.matches("RAYLEIGH sky")
    assert not found.matches("sky sea")
    assert library.find("last").id == library.find(found.id[:4]).id == found.id
    for wrong in ("", "../x", "zz"):
        with pytest.raises(UsageError, match="eagle-chat chats"):
            library.find(wrong)
    library.delete(found.id)
    with pytest.raises(UsageError, match="no saved conversation"):
        library.find("last")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_rights_is_named(library: Library, talk: Chat) -> None:
    """Catches a conversation that silently is not there."""
    talk.ask("one")
    path = library.path(only(library).id)
    path.chmod(0)
    with pytest.raises(EagleChatError, match="Permission denied"):
        library.read(path.stem)
    assert path.exists()
