"""Measures what drafters reach on tasks: tau, acceptance by depth, and how far a head's confidence is right.

Everything is counted from round records; nothing is printed here, and torch is not needed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from eagle_chat.errors import UsageError
from eagle_chat.events import RoundDone
from eagle_chat.questions import Question, Task
from eagle_chat.records import RoundRecord
from eagle_chat.statistics import ReplyStatistics

if TYPE_CHECKING:
    from eagle_chat.messages import Message
    from eagle_chat.session import ChatSession
    from eagle_chat.text import Prompts

BINS = 10  # of confidence, equally wide


@dataclass
class TaskScore:
    """One drafter on one task, all replies pooled."""

    statistics: ReplyStatistics = field(default_factory=ReplyStatistics)
    replies: int = 0

    def add(self, record: RoundRecord) -> None:
        """Count one round; round 0 begins a reply."""
        self.statistics.add(record)
        self.replies += record.index == 0

    @property
    def tau(self) -> float | None:
        """(new tokens - 1) / rounds, both summed over the replies; None before the first round."""
        rounds = self.statistics.rounds
        return (self.statistics.new_tokens - self.replies) / rounds if rounds else None

    def as_json(self) -> dict[str, Any]:
        """The keys of `evaluate --json`."""
        return {
            "tau": self.tau,
            "rounds": self.statistics.rounds,
            "new_tokens": self.statistics.new_tokens,
            "accepted_by_depth": self.statistics.accepted_by_depth,
        }


def tested_nodes(record: RoundRecord) -> Iterator[int]:
    """The nodes whose parent is the root or was accepted; of the others nobody knows."""
    # A stop token ended the path before the walk did: what was accepted below it is not recorded.
    walked = record.path if record.bonus is not None else record.path[:-1]
    for node, parent in enumerate(record.tree.parents[1:], start=1):
        if parent in walked:
            yield node


@dataclass
class Bin:
    """Tested nodes of about the same confidence."""

    count: int = 0
    confidence: float = 0.0  # summed
    accepted: int = 0


@dataclass
class Calibration:
    """A drafter's confidence and values beside what the target accepted, of the nodes that were tested."""

    bins: list[Bin] = field(default_factory=lambda: [Bin() for _ in range(BINS)])
    rounds: int = 0
    expected: float = 0.0  # sum of exp(value): the accepted nodes that the drafter would bet on
    accepted: int = 0

    def add(self, record: RoundRecord) -> None:
        """Count one round; the prefill and drafters without probabilities have nothing to count."""
        values = record.tree.values
        if record.index == 0 or values is None:
            return
        self.rounds += 1
        self.expected += math.fsum(map(math.exp, values[1:]))
        self.accepted += record.accepted
        for node in tested_nodes(record):
            parent = record.tree.parents[node]
            self._count(math.exp(values[node] - values[parent]), node in record.path)

    def _count(self, confidence: float, accepted: bool) -> None:
        place = self.bins[min(int(confidence * BINS), BINS - 1)]
        place.count += 1
        place.confidence += confidence
        place.accepted += accepted

    @property
    def tested(self) -> int:
        """Nodes that were tested."""
        return sum(one.count for one in self.bins)

    @property
    def error(self) -> float | None:
        """Mean distance of the bins' confidence from their accepted share, by nodes; None without nodes."""
        off = sum(abs(one.confidence - one.accepted) for one in self.bins)
        return off / self.tested if self.tested else None

    @property
    def expected_per_round(self) -> float | None:
        """None before the first round with probabilities."""
        return self.expected / self.rounds if self.rounds else None

    @property
    def accepted_per_round(self) -> float | None:
        """Committed drafted tokens a round; None before the first round with probabilities."""
        return self.accepted / self.rounds if self.rounds else None

    def as_json(self) -> list[dict[str, Any]]:
        """The bins in order; empty where the drafter gave no probabilities."""
        return [
            {
                "from": index / BINS,
                "to": (index + 1) / BINS,
                "count": one.count,
                "mean_confidence": one.confidence / one.count if one.count else None,
                "accepted_share": one.accepted / one.count if one.count else None,
            }
            for index, one in enumerate(self.bins if self.rounds else [])
        ]


@dataclass
class Score:
    """What one drafter has reached so far."""

    tasks: dict[str, TaskScore] = field(default_factory=dict)
    calibration: Calibration = field(default_factory=Calibration)
    questions: int = 0  # answered to the end

    def add(self, task: str, record: RoundRecord) -> None:
        """Count one round of a task."""
        self.tasks.setdefault(task, TaskScore()).add(record)
        self.calibration.add(record)

    @property
    def tau(self) -> float | None:
        """Mean over the tasks; None before the first round."""
        return mean(task.tau for task in self.tasks.values())

    def as_json(self) -> dict[str, Any]:
        """The keys of `evaluate --json` that every drafter has."""
        return {"tasks": {name: task.as_json() for name, task in self.tasks.items()}, "tau": self.tau}


def mean(numbers: Iterable[float | None]) -> float | None:
    """Of those that are known; None where none is."""
    known = [number for number in numbers if number is not None]
    return fmean(known) if known else None


def check_lengths(tasks: Iterable[Task], prompts: Prompts, context: int, system: str | None) -> None:
    """Raises UsageError for a question that cannot fit into `context` tokens even without the replies."""
    for question in (question for task in tasks for question in task.questions):
        messages: list[Message] = [{"role": "system", "content": system}] if system else []
        for index, turn in enumerate(question.turns):
            messages += [{"role": "assistant", "content": ""}] if index else []
            messages += [{"role": "user", "content": turn}]
        length = len(prompts.encode(messages))
        if length >= context:
            raise UsageError(
                f"{question.where} is too long: it has {length} tokens and the context holds {context}"
            )


def measure(task: Task, session: ChatSession, score: Score, stop: threading.Event) -> Iterator[None]:
    """Ask every question, each in a new conversation, and add the rounds to `score`.

    Yields after each question, so that progress can be shown; ends early once `stop` is set.
    """
    for question in task.questions:
        session.new_chat()
        for record in ask(question, session, stop):
            score.add(task.name, record)
        if stop.is_set():
            return
        score.questions += 1
        yield


def ask(question: Question, session: ChatSession, stop: threading.Event) -> Iterator[RoundRecord]:
    """Every round of the replies to all turns."""
    for turn in question.turns:
        try:
            for event in session.ask(turn, seed=None, stop=stop):
                if isinstance(event, RoundDone):
                    yield event.record
        except UsageError:  # the turns alone fit, which was checked
            raise UsageError(
                f"{question.where} and the replies to it are longer than the context of "
                f"{session.info.context} tokens: lower --max-new-tokens"
            ) from None
        if stop.is_set():
            return
