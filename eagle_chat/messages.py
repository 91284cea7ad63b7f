"""A conversation as chat templates and servers take it."""

from __future__ import annotations

from collections.abc import Iterable

Message = dict[str, str]  # {"role": "system" | "user" | "assistant", "content": text}


def under_system(system: str | None, messages: Iterable[Message] = ()) -> list[Message]:
    """The messages with this system prompt, or none, in place of their own."""
    first = [{"role": "system", "content": system}] if system else []
    return [*first, *(message for message in messages if message["role"] != "system")]
