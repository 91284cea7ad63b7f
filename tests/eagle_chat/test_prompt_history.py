"""What was sent before: going through it, and the file that keeps it."""

import json
from pathlib import Path

import pytest

from eagle_chat import prompt_history
from eagle_chat.prompt_history import PromptHistory


def test_back_and_forth() -> None:
    """Catches what was being written getting lost, and a history that runs over its ends."""
    history = PromptHistory()
    for text in ("one", "two", "two", " "):
        history.add(text)
    assert history.earlier("draft") == "two"
    assert history.earlier("two") == "one"
    assert history.earlier("one") is None
    assert history.later() == "two"
    assert history.later() == "draft"
    assert history.later() is None


def test_the_next_session_has_it(tmp_path: Path) -> None:
    """Catches a file that others can read, and line breaks that split an entry."""
    path = tmp_path / "data" / "prompts.jsonl"
    PromptHistory(path).add("first\nsecond\u2028third")
    assert path.stat().st_mode & 0o077 == 0
    assert PromptHistory(path).earlier("") == "first\nsecond\u2028third"


@pytest.mark.parametrize("broken", ['"cut of', "\x00\x00", "[1]", "\udcff"])
def test_a_torn_line_costs_only_itself(tmp_path: Path, broken: str) -> None:
    """Catches a history that a crash in the middle of a line makes unreadable, or the line after it."""
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(b'"kept"\n' + broken.encode(errors="surrogateescape"))
    PromptHistory(path).add("new")
    history = PromptHistory(path)
    assert history.earlier("") == "new"
    assert history.earlier("") == "kept"


def test_the_file_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a file that grows for ever, and one that loses the newest when it is cut."""
    monkeypatch.setattr(prompt_history, "KEPT", 3)
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f"{json.dumps(str(number))}\n" for number in range(7)))
    PromptHistory(path)
    assert [json.loads(line) for line in path.read_text().splitlines()] == ["4", "5", "6"]
    assert path.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Catches a chat that fails because its history cannot be kept."""
    (tmp_path / "file").write_text("")
    history = PromptHistory(tmp_path / "file" / "prompts.jsonl")
    history.add("one")
    assert history.earlier("") == "one"
