"""What the tests of `eagle-chat evaluate` have in common: files of questions, and the report."""

from __future__ import annotations

import json
from pathlib import Path

from eagle_chat.errors import EXIT_DONE
from tests.eagle_chat.conftest import Ran


def write_questions(path: Path, *conversations: list[str]) -> Path:
    """A file with these turns, and fields that nobody asked for."""
    lines = [
        json.dumps({"question_id": number, "turns": turns, "category": ""})
        for number, turns in enumerate(conversations)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def report_of(ran: Ran) -> dict:
    """The JSON object, which must be all there is."""
    assert ran.code == EXIT_DONE, ran.err
    assert ran.out.count("\n") == 1
    assert ran.err == ""
    return json.loads(ran.out)
