"""Who is asked what in a study: every contender the same questions, one right after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from eagle_chat.evaluation import ask
from eagle_chat.records import RoundRecord
from eagle_chat.study.numbers import Tally

if TYPE_CHECKING:
    from eagle_chat.questions import Task
    from eagle_chat.session import ChatSession
    from eagle_chat.study.chart import Drawing
    from engine import Drafter


@dataclass(frozen=True)
class Answer:
    """How one contender answered all turns of a question."""

    task: str
    question: int  # its place among all, task after task
    contender: str
    records: Sequence[RoundRecord]

    @property
    def rounds(self) -> list[RoundRecord]:
        """Without the prefills."""
        return [record for record in self.records if record.index > 0]

    @property
    def tally(self) -> Tally:
        """What τ is made of."""
        return sum(len(record.new) for record in self.rounds), len(self.rounds)

    @property
    def tokens(self) -> list[int]:
        """All that was said."""
        return [token for record in self.records for token in record.new]


class Figure(Protocol):
    """One of the figures, while it is measured and after."""

    @property
    def stages(self) -> Sequence[Sequence[str]]:
        """Contenders; a stage asks all questions, and begins when the one before is over."""

    def drafter(self, contender: str, question: int) -> Drafter:
        """Who drafts."""

    def add(self, answer: Answer) -> None:
        """Count a reply."""

    def drawing(self) -> Drawing:
        """What is known so far."""

    def as_json(self) -> dict[str, Any]:
        """The same as keys of `--json`."""


@dataclass
class Pairs:
    """Answers to the same questions by several contenders; a question counts once all have answered it."""

    contenders: Sequence[str]
    tasks: dict[int, str] = field(default_factory=dict)  # by question
    answers: dict[int, dict[str, Tally]] = field(default_factory=dict)
    texts: dict[int, list[int]] = field(default_factory=dict)  # of whoever was first
    parted: set[int] = field(default_factory=set)  # questions that were not answered alike

    def add(self, answer: Answer) -> None:
        """Take one in."""
        question = answer.question
        self.tasks[question] = answer.task
        self.answers.setdefault(question, {})[answer.contender] = answer.tally
        if self.texts.setdefault(question, answer.tokens) != answer.tokens:
            self.parted.add(question)

    @property
    def complete(self) -> dict[int, dict[str, Tally]]:
        """By question."""
        return {q: found for q, found in self.answers.items() if len(found) == len(self.contenders)}

    def by_task(self, contender: str) -> dict[str, list[Tally]]:
        """Tallies of the complete questions, in order."""
        found: dict[str, list[Tally]] = {}
        for question, answers in self.complete.items():
            found.setdefault(self.tasks[question], []).append(answers[contender])
        return found

    def note(self) -> str | None:
        """What to know about the pairs where texts part; None where all is well."""
        parted = len(self.parted & self.complete.keys())
        if not parted:
            return None
        return (
            f"The texts part in {parted} of {len(self.complete)} questions, as half precision may: there "
            "τ is not of the same text. --dtype fp32 has equal ones."
        )


def count_replies(figure: Figure, tasks: Sequence[Task]) -> int:
    """How many a whole study has; all turns of a question are one."""
    return sum(map(len, figure.stages)) * sum(len(task.questions) for task in tasks)


def ask_all(
    figure: Figure, tasks: Sequence[Task], session: ChatSession, stop: threading.Event
) -> Iterator[str]:
    """Ask, and say after each reply what was done; ends early once `stop` is set.

    The tasks take turns, so that whoever stops early has seen them all. Another contender begins at each
    question, so that no drift of the machine favours one of them.
    """
    questions = [(turn, task.name, one) for task in tasks for turn, one in enumerate(task.questions)]
    places = sorted(range(len(questions)), key=lambda place: questions[place][0])
    for stage in figure.stages:
        for number, place in enumerate(places):
            _, task, question = questions[place]
            first = number % len(stage)
            for contender in (*stage[first:], *stage[:first]):
                # A drafter observes everything that its engine decodes, so each has an engine to itself.
                own = session.with_drafter(session.info.method, figure.drafter(contender, place))
                records = list(ask(question, own, stop))
                if stop.is_set():
                    return
                figure.add(Answer(task, place, contender, records))
                yield f"{task} · {contender}"
