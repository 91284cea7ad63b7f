"""A benchmark that can go on where it stopped: `--resume FILE` keeps what was answered, line by line.

The first line says how and where it is measured. Each further one is a prompt with the replies of all
methods: a ratio is that of two replies made one right after the other, so that what was only half answered is
asked again. Prompts come in the same order each time; what a drafter learnt by decoding is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eagle_chat.benchmark import Asked, Reply
from eagle_chat.errors import EagleChatError, UsageError

FORMAT = 1
MAY_CHANGE = ("date", "threads")  # of the machine; the threads are set as they were


class KeptReplies:
    """The file, and what it held: nothing where it is new."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError where it cannot be read or written, or is something else."""
        self._path = path
        try:
            with path.open("a+b") as file:
                file.seek(0)
                content = file.read()
        except OSError as error:
            raise UsageError(
                f"{path} cannot be used ({error.strerror}): give another file as --resume"
            ) from None
        whole, _, torn = content.rpartition(b"\n")  # a line that was being written when all ended
        self._length = len(content) - len(torn)
        lines = [self._parsed(number, line) for number, line in enumerate(whole.splitlines(), start=1)]
        self._header = lines[0] if lines else None
        if (lines or torn) and not _is_header(self._header):
            raise UsageError(f"{path} holds no replies of a benchmark: give another file as --resume")
        self.known = [self._asked(number, line) for number, line in enumerate(lines[1:], start=2)]

    @property
    def threads(self) -> int | None:
        """With how many it was begun; None where it is new."""
        return self._header["machine"]["threads"] if self._header else None

    def begin(self, settings: Mapping[str, Any], machine: Mapping[str, Any]) -> None:
        """Be sure that all is as it was; a new file is told how it is. Raises UsageError where it is not."""
        header = {"bench": FORMAT, "settings": dict(settings), "machine": dict(machine)}
        now = json.loads(json.dumps(header))  # as it is read
        if self._header is None:
            self._write(header)
            return
        for part, may_change in (("settings", ()), ("machine", MAY_CHANGE)):
            before = self._header[part]
            for key in dict.fromkeys((*before, *now[part])):
                old, new = before.get(key), now[part].get(key)
                if key not in may_change and old != new:
                    raise UsageError(
                        f"{self._path} was begun with {key} {_said(old)}, and now it is {_said(new)}: use "
                        "the same options, weights and machine, or give another file as --resume"
                    )
        for number, asked in enumerate(self.known, start=2):
            if asked.replies.keys() != set(settings["methods"]):
                raise self._damaged(number)

    def add(self, asked: Asked) -> None:
        """One more line, at once."""
        self._write(asdict(asked))

    def _write(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        try:
            with self._path.open("r+b") as file:
                file.truncate(self._length)
                file.seek(self._length)
                file.write(data)
        except OSError as error:
            raise EagleChatError(f"{self._path} cannot be written ({error.strerror}): make room") from None
        self._length += len(data)

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            fields = json.loads(line)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            raise self._damaged(number)
        return fields

    def _asked(self, number: int, line: dict[str, Any]) -> Asked:
        try:
            replies = {name: _reply(**reply) for name, reply in line["replies"].items()}
            return Asked(line["task"], line["temperature"], tuple(line["prompt"]), replies)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._damaged(number) from None

    def _damaged(self, number: int) -> UsageError:
        return UsageError(f"{self._path}, line {number} is damaged: give another file as --resume")


def _is_header(line: dict[str, Any] | None) -> bool:
    if line is None or line.get("bench") != FORMAT:
        return False
    settings, machine = line.get("settings"), line.get("machine")
    return (
        isinstance(settings, dict) and isinstance(machine, dict) and isinstance(machine.get("threads"), int)
    )


def _reply(tokens: list[int], rounds: int, seconds: float, prefilled: int) -> Reply:
    return Reply(tuple(map(int, tokens)), int(rounds), float(seconds), int(prefilled))


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
