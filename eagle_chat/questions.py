"""Files of questions: one JSON object a line, whose `turns` are asked in order as one conversation.

Sets of our own for six kinds of task lie in the folder of the same name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from eagle_chat.errors import UsageError
from eagle_chat.options import is_utf8

TASKS = ("conversation", "math", "code", "instruction", "qa", "summary")
"""What our own questions are about: the kinds of task that papers on speculative decoding measure."""

ALL = "all"


@dataclass(frozen=True)
class Question:
    """What the user says, turn by turn."""

    turns: tuple[str, ...]
    where: str  # file and line, for messages


@dataclass(frozen=True)
class Task:
    """The questions of one file."""

    name: str  # the file's, without its extension
    questions: tuple[Question, ...]


def own_files(tasks: str) -> list[Path]:
    """Those of the tasks named, with commas between, or of `all`. Raises UsageError for others."""
    names = list(dict.fromkeys(name.strip() for name in tasks.split(",")))
    for name in names:
        if name not in (*TASKS, ALL):
            raise UsageError(f"--tasks knows no {name!r}: choose from {ALL}, {', '.join(TASKS)}")
    chosen = TASKS if ALL in names else names
    return [Path(str(files("eagle_chat").joinpath("questions", f"{name}.jsonl"))) for name in chosen]


def read_tasks(paths: Sequence[Path], limit: int | None = None) -> list[Task]:
    """A task for each file, of its first `limit` questions. Raises UsageError, with file and line."""
    if not paths:
        raise UsageError("there are no questions: name a file with --questions")
    seen: dict[str, Path] = {}
    for path in paths:
        if path.stem in seen:
            raise UsageError(
                f"{seen[path.stem]} and {path} would both be the task {path.stem}: leave one out or rename it"
            )
        seen[path.stem] = path
    return [Task(path.stem, tuple(_questions(path))[:limit]) for path in paths]


def _questions(path: Path) -> Iterator[Question]:
    lines = _read(path).split("\n")  # splitlines() would also split at characters that JSON allows in texts
    if not any(line.strip() for line in lines):
        raise UsageError(f'{path} holds no questions: write one JSON object with "turns" a line')
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield Question(_turns(line, where), where)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): check --questions") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid UTF-8 (byte {error.start}): convert it first") from None


def _turns(line: str, where: str) -> tuple[str, ...]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise UsageError(f"{where} is not JSON: write one object a line") from None
    turns = fields.get("turns") if isinstance(fields, dict) else None
    if not isinstance(turns, list) or not turns or not all(_is_prompt(turn) for turn in turns):
        raise UsageError(f'{where} lacks "turns": it must be a list of one or more texts, none empty')
    return tuple(turns)


def _is_prompt(turn: Any) -> bool:
    return isinstance(turn, str) and bool(turn.strip()) and is_utf8(turn)
