"""What the events of a streamed completion say, checked: servers differ in what they leave out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eagle_chat.errors import EagleChatError
from eagle_chat.server.failures import detail


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event of a reply."""

    text: str = ""
    thought: str = ""  # before the reply proper, where the server keeps the two apart
    finish: str | None = None  # why the reply is over
    prompt_tokens: int | None = None
    new_tokens: int | None = None  # of the reply so far
    timings: Mapping[str, Any] | None = None  # of llama.cpp's server, with its last event


def parse(data: str) -> Chunk:
    """Raises EagleChatError for an error of the server and for what is no chunk of a completion."""
    try:
        value = json.loads(data)
        if not isinstance(value, dict):
            raise TypeError
        if value.get("error"):
            raise EagleChatError(f"The server ended the reply with an error: {detail(data)}.")
        choice = (value.get("choices") or [{}])[0]
        delta, usage = choice.get("delta") or {}, value.get("usage") or {}
        chunk = Chunk(
            text=delta.get("content") or "",
            thought=delta.get("reasoning_content") or delta.get("reasoning") or "",
            finish=choice.get("finish_reason"),
            prompt_tokens=usage.get("prompt_tokens"),
            new_tokens=usage.get("completion_tokens"),
            timings=value.get("timings"),
        )
    except (ValueError, TypeError, AttributeError, LookupError):
        chunk = None
    if chunk is None or not _well_typed(chunk):
        beginning = " ".join(data.split())[:60]
        raise EagleChatError(f"The server sent an event that is no part of a reply: {beginning}")
    return chunk


def _well_typed(chunk: Chunk) -> bool:
    counts = (chunk.prompt_tokens, chunk.new_tokens)
    return (
        isinstance(chunk.text, str)
        and isinstance(chunk.thought, str)
        and isinstance(chunk.finish, str | None)
        and isinstance(chunk.timings, dict | None)
        and all(count is None or (type(count) is int and count >= 0) for count in counts)
    )
