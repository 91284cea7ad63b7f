"""A reply as it comes from a server: its text, when it came, and how the server counts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from eagle_chat.events import Arrived, ServerSays
from eagle_chat.records import Acceptance
from eagle_chat.server.chunks import Chunk
from eagle_chat.server.statistics import ServerStatistics

THINKING, THOUGHT = "<think>\n", "\n</think>\n\n"  # as the models write it that think aloud


@dataclass
class Incoming:
    """A reply as far as it has come."""

    seed: int
    statistics: ServerStatistics = field(default_factory=ServerStatistics)
    text: str = ""
    prompt_tokens: int | None = None
    new_tokens: int | None = None
    finish: str | None = None
    timings: Mapping[str, Any] | None = None
    since: float = 0.0  # our clock: of the request, then of the newest text
    _counted: int = 0  # tokens told of before the newest text
    _thinking: bool = False

    def add(self, chunk: Chunk) -> Arrived | None:
        """Take a chunk; what arrived, if it has text."""
        if chunk.new_tokens is not None:
            self.new_tokens = chunk.new_tokens
        if chunk.prompt_tokens is not None:
            self.prompt_tokens = chunk.prompt_tokens
        self.finish = chunk.finish or self.finish
        self.timings = chunk.timings or self.timings
        text = self._with_thoughts(chunk)
        if not text:
            return None
        tokens = None
        if chunk.new_tokens is not None:
            tokens, self._counted = chunk.new_tokens - self._counted, chunk.new_tokens
        now = perf_counter()
        arrived = Arrived(text, 1000 * (now - self.since), tokens)
        self.since = now
        self.text += text
        self.statistics.arrived(arrived)
        return arrived

    def end(self, acceptance: Acceptance | None) -> ServerSays:
        """Nothing more comes."""
        says = ServerSays(self.new_tokens, acceptance)
        self.statistics.says(says)
        return says

    def _with_thoughts(self, chunk: Chunk) -> str:
        """Thoughts in their place before the reply, where the server took them out of it."""
        text = ""
        if chunk.thought:
            text = ("" if self._thinking else THINKING) + chunk.thought
            self._thinking = True
        if chunk.text:
            text += (THOUGHT if self._thinking else "") + chunk.text
            self._thinking = False
        return text
