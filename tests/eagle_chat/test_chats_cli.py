"""`eagle-chat chats` and `eagle-chat --resume`: conversations on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eagle_chat.chats_cli import resume_the_last
from eagle_chat.cli import cli
from eagle_chat.conversation_recorder import Recorder
from eagle_chat.conversations import Library
from eagle_chat.messages_file import read_conversations
from tests.eagle_chat.conftest import Ran, assert_refused
from tests.eagle_chat.fake_session import SKY, FakeSession

Command = Callable[..., Ran]


@pytest.fixture
def library(data_folder: Path) -> Library:
    """Two conversations: one about the sky, then one about rivers."""
    library, session = Library(), FakeSession()
    for prompt, text in (("Why is the sky blue?", SKY), ("Name a\x1b[31m river", "The Rhône.\n")):
        recorder = Recorder(library)
        session.new_chat()
        session.text = text
        for event in session.ask(prompt, seed=7, stop=threading.Event()):
            recorder.take(event, session.info)
    return library


def test_the_list(library: Library) -> None:
    """Catches a list in the wrong order, or with what a terminal would obey in it."""
    shown = CliRunner().invoke(cli, ["chats"]).stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["id", *(each.id for each in library.all()[0])]
    assert shown[0].split() == ["id", "last", "used", "turns", "model", "title"]
    assert shown[1].endswith("    1  smollm2-135m  Name a␛[31m river")
    found = json.loads(CliRunner().invoke(cli, ["chats", "--json", "--search", "SKY rayleigh"]).stdout)
    (only,) = found["conversations"]
    assert only["title"] == "Why is the sky blue?"
    assert only.keys() == {"id", "title", "created", "updated", "model", "turns"}


def test_an_empty_list_says_so(data_folder: Path, command: Command) -> None:
    """Catches a command that prints nothing at all, or a word where a script reads data."""
    ran = command("chats")
    assert (ran.code, ran.out) == (0, "")
    assert "nothing is saved yet" in ran.err


def test_showing_one(library: Library, command: Command) -> None:
    """Catches a conversation whose text or figures are not all there."""
    shown = command("chats", "show", library.all()[0][1].id[:5]).out
    assert all(part in shown for part in ("❯ Why is the sky blue?", SKY, "τ 1.95 · eagle2 · seed 7"))
    report = json.loads(command("chats", "show", "last", "--json").out)
    assert report["turns"][0]["reply"] == "The Rhône.\n"
    assert report["turns"][0]["end"]["rounds"] == 1


def test_exporting(library: Library, command: Command, tmp_path: Path) -> None:
    """Catches an export that training cannot read, that overwrites a file, or whose text is another."""
    file = tmp_path / "chat.jsonl"
    ran = command("chats", "export", "last", "--to", file)
    assert (ran.code, ran.out) == (0, "")
    assert [messages for _, messages in read_conversations(file)] == [library.find("last").messages()]
    assert_refused(command("chats", "export", "last", "--to", file), str(file), "is there already")
    assert_refused(command("chats", "export", "last", "--to", tmp_path / "chat.pdf"), ".md, .json, .jsonl")
    assert command("chats", "export", "last", "--to", tmp_path / "chat.json").code == 0
    whole = json.loads((tmp_path / "chat.json").read_text(encoding="utf-8"))
    assert whole["turns"][0]["reply"] == "The Rhône.\n"
    printed = command("chats", "export", library.all()[0][1].id).out
    assert printed.startswith("# Why is the sky blue?\n")
    assert printed.index("## You") < printed.index("## smollm2-135m") < printed.index(SKY)


def test_deleting(library: Library, command: Command) -> None:
    """Catches a deletion nobody agreed to, or of more than was named."""
    sky = library.all()[0][1].id
    assert_refused(command("chats", "delete"), "give its id, or --all")
    assert_refused(command("chats", "delete", sky, "--all"), "not both")
    assert_refused(command("chats", "delete", sky), "--yes")
    assert len(library.all()[0]) == 2
    assert command("chats", "delete", sky, "--yes").code == 0
    assert [each.title for each in library.all()[0]] == ["Name a\x1b[31m river"]
    assert command("chats", "delete", "--all", "--yes").code == 0
    assert library.all() == ([], [])


def test_deleting_asks(library: Library, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a no that deletes all the same."""
    monkeypatch.setattr("eagle_chat.asking.is_terminal", lambda stream: True)
    for answer, code, left in ((b"n\n", 1, 2), (b"", 130, 2), (b"y\n", 0, 1)):
        ran = command("chats", "delete", "last", stdin=answer)
        assert (ran.code, len(library.all()[0])) == (code, left)


def test_a_damaged_one_is_named_beside_the_others(library: Library, command: Command) -> None:
    """Catches one bad file that ends the list, or a silent loss."""
    bad = library.path(library.find("last").id)
    bad.write_text("{}\n")
    ran = command("chats")
    assert ran.out.count("\n") == 2
    assert f"{bad.stem} is damaged (line 1): it was set aside as" in ran.err


@pytest.mark.parametrize(
    ("args", "filled"),
    [
        (["--resume"], ["--resume", "last"]),
        (["--resume", "-t", "1"], ["--resume", "last", "-t", "1"]),
        (["--resume", "abc", "-t", "1"], ["--resume", "abc", "-t", "1"]),
        (["train", "--out", "x", "--resume"], ["train", "--out", "x", "--resume"]),
    ],
)
def test_resume_without_an_id(args: list[str], filled: list[str]) -> None:
    """Catches an option that is taken for the id, and a `train --resume` that gets one."""
    assert resume_the_last(args, {"train"}) == filled


def test_resume_opens_the_chat_with_it(
    library: Library, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches options that do not reach the app."""
    opened: list[tuple[str, bool]] = []

    def run_app(make_session, *, recorder, resume, **_):  # type: ignore[no-untyped-def]
        opened.append((resume.title, recorder.saves))
        return 0

    monkeypatch.setattr("eagle_chat.running.run_app", run_app)
    assert_refused(command("--resume"), "needs a terminal")
    monkeypatch.setattr("eagle_chat.opening.has_screen", lambda: True)
    assert command("--resume", "--no-save").code == 0
    assert command("--resume", library.all()[0][1].id).code == 0
    assert opened == [("Name a\x1b[31m river", False), ("Why is the sky blue?", True)]
    assert_refused(command("--resume", "nothing"), "is no conversation's id")


def test_none_of_it_needs_torch(data_folder: Path) -> None:
    """Catches an import that makes a list wait for torch or the screen."""
    code = (
        "import sys; sys.argv = ['eagle-chat', 'chats', '--json']\n"
        "try: from eagle_chat.__main__ import main; main()\n"
        "except SystemExit: print(sorted({'torch', 'transformers', 'engine', 'textual'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
