"""The chapters of the tour, from a data file: each step is about a round of a recorded reply."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eagle_chat.layout.states import own_token
from eagle_chat.phases import Phase, drafting
from eagle_chat.recorded import load_recording
from eagle_chat.records import RoundRecord
from eagle_chat.replaying import Frame, Replay
from eagle_chat.tour.facts import facts

TRACES = Path(__file__).parent / "traces"
TEXTS = Path(__file__).parent / "chapters.toml"


@dataclass(frozen=True)
class Step:
    """One thing to see and what there is to say about it."""

    trace: str
    round: int
    template: str  # its numbers are names of facts
    node: int | None = None
    against: str | None = None
    phase: Phase | None = None  # before the verdict

    @property
    def replay(self) -> Replay:
        """The reply that the round is from."""
        return recorded(self.trace)

    @property
    def record(self) -> RoundRecord:
        """The round."""
        return self.replay.trace.rounds[self.round].record

    @property
    def frame(self) -> Frame:
        """The text after the round, or before it where the model has not answered yet."""
        return self.replay.frame(self.round + (self.phase is None))

    def text(self) -> str:
        """What is said, with the numbers of the trace."""
        other = recorded(self.against) if self.against else None
        return self.template.format_map(facts(self.replay, self.round, self.node, other))


@dataclass(frozen=True)
class Chapter:
    """Some steps, and something to try at the end."""

    title: str
    steps: tuple[Step, ...]
    to_try: str


@cache
def chapters() -> tuple[Chapter, ...]:
    """All of them, in order."""
    data = tomllib.loads(TEXTS.read_text(encoding="utf-8"))
    return tuple(
        Chapter(each["title"], tuple(map(_step, each["step"])), each["try"]) for each in data["chapter"]
    )


@cache
def recorded(name: str) -> Replay:
    """A reply of the lesson."""
    return Replay(load_recording(TRACES / f"{name}.jsonl.gz"))


def _step(data: Mapping[str, Any]) -> Step:
    record = recorded(data["trace"]).trace.rounds[data["round"]].record
    node = data.get("node")
    if node == "own":
        node = own_token(record)
    return Step(
        trace=data["trace"],
        round=data["round"],
        template=data["text"].strip(),
        node=node,
        against=data.get("against"),
        phase=drafting(record, 1.0) if data.get("before_verdict") else None,
    )
