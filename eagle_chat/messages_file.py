"""Conversations in a file: one JSON object a line, `messages` as chat templates take them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eagle_chat.errors import UsageError
from eagle_chat.options import is_utf8

ROLES = ("system", "user", "assistant")


def read_conversations(file: Path) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Each line's place, for messages, and its messages. Raises UsageError with the place."""
    try:
        with file.open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    where = f"{file}, line {number}"
                    yield where, _messages(line, where)
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text: convert it first") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}): check --data") from None


def _messages(line: str, where: str) -> list[dict[str, str]]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise UsageError(f"{where} is not JSON: write one object a line") from None
    messages = record.get("messages") if isinstance(record, dict) else None
    if not isinstance(messages, list) or not messages:
        raise UsageError(f'{where} lacks "messages": it must be a list of one or more')
    for message in messages:
        if not isinstance(message, dict) or not _is_text(message.get("content")):
            raise UsageError(f'{where}: every message needs "role" and "content", both text')
        if message.get("role") not in ROLES:
            raise UsageError(f"{where}: a role is one of {', '.join(ROLES)}, not {message.get('role')!r}")
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_utf8(value)
