"""Who answers when in a benchmark: every method the same prompt, one right after the other, in turns.

It knows no tokenizer and no torch; methods and the layout of prompts are handed in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eagle_chat.benchmark import PLAIN, Asked, Reply
from eagle_chat.errors import UsageError
from eagle_chat.questions import Question, Task

if TYPE_CHECKING:
    from eagle_chat.messages import Message
    from eagle_chat.progress_bar import Show


class Stopped(Exception):  # noqa: N818 - no error: the user has seen enough
    """Raised by a method that was interrupted in the middle of a reply."""


class Contender(Protocol):
    """A method that is measured."""

    name: str

    def answer(self, prompt: list[int], temperature: float) -> Reply:
        """Reply to a prompt with nothing cached of it. Raises Stopped."""


@dataclass(frozen=True)
class Plan:
    """What is asked. Repeats are whole passes, so that they lie far apart in time."""

    tasks: Sequence[Task]
    temperatures: Sequence[float] = (0.0,)
    repeats: int = 1

    @property
    def prompts(self) -> int:
        """How many there are: every turn of a question is one."""
        turns = sum(len(question.turns) for task in self.tasks for question in task.questions)
        return turns * len(self.temperatures) * self.repeats

    @property
    def fingerprint(self) -> str:
        """Other questions, or in another order, have another one."""
        turns = [[task.name, [question.turns for question in task.questions]] for task in self.tasks]
        return hashlib.sha256(json.dumps(turns).encode()).hexdigest()


@dataclass(frozen=True)
class Layout:
    """How a conversation becomes a prompt, and tokens a text."""

    encode: Callable[[list[Message]], list[int]]
    text: Callable[[Sequence[int]], str]
    context: int  # tokens
    system: str | None = None

    def opening(self) -> list[Message]:
        """What comes before the first question."""
        return [{"role": "system", "content": self.system}] if self.system else []


def ask(
    plan: Plan,
    contenders: Sequence[Contender],
    layout: Layout,
    known: Sequence[Asked] = (),
    show: Show = lambda doing, done: None,
) -> Iterator[Asked]:
    """Every prompt with the replies of all methods. Raises Stopped, and UsageError for one that is too long.

    Another method begins at each prompt, so that no drift of the machine favours one of them. The first
    prompts are not asked again where their replies are `known`; `show` is told of every reply.
    """
    answers = _Answers(layout, iter(known), show)
    for repeat in range(plan.repeats):
        place = repeat
        for task in plan.tasks:
            for question in task.questions:
                for temperature in plan.temperatures:  # all of them with the same method first
                    orders = _rotations(contenders, place)
                    yield from _converse(task.name, question, temperature, orders, answers)
                place += 1


def _rotations(contenders: Sequence[Contender], place: int) -> Iterator[list[Contender]]:
    """The order for one prompt after another; the first one begins with the method at `place`."""
    while True:
        first = place % len(contenders)
        yield [*contenders[first:], *contenders[:first]]
        place += 1


@dataclass(frozen=True)
class _Answers:
    """Where replies come from: those that are known, then the methods."""

    layout: Layout
    known: Iterator[Asked]
    show: Show

    def to(
        self, task: str, temperature: float, prompt: list[int], order: list[Contender]
    ) -> tuple[Asked, bool]:
        """The prompt with its replies, and whether they are new."""
        found = next(self.known, None)
        if found is not None:
            if (found.task, found.temperature, found.prompt) != (task, temperature, tuple(prompt)):
                raise UsageError(
                    f"the replies kept so far are to other prompts (in {found.task}, where {task} is asked): "
                    "give another file as --resume"
                )
            return found, False
        replies: dict[str, Reply] = {}
        for contender in order:
            self.show(f"{task} · {contender.name}", 0)
            replies[contender.name] = contender.answer(prompt, temperature)
            self.show(f"{task} · {contender.name}", 1)
        return Asked(task, temperature, tuple(prompt), replies), True


def _converse(
    task: str, question: Question, temperature: float, orders: Iterator[list[Contender]], answers: _Answers
) -> Iterator[Asked]:
    """The turns as one conversation, which goes on from plain decoding's replies, for all methods.

    Without plain decoding it goes on from the reply of the method that began.
    """
    layout = answers.layout
    messages = layout.opening()
    for turn, order in zip(question.turns, orders, strict=False):
        said = [*messages, {"role": "user", "content": turn}]
        prompt = layout.encode(said)
        if len(prompt) >= layout.context:
            raise UsageError(
                f"{question.where} and the replies to it are longer than the context of "
                f"{layout.context} tokens: lower --max-new-tokens"
            )
        asked, is_new = answers.to(task, temperature, prompt, order)
        if is_new:
            yield asked
        text = layout.text(asked.replies.get(PLAIN, asked.replies[order[0].name]).tokens)
        if text:  # two user turns in a row fit no template
            messages = [*said, {"role": "assistant", "content": text}]
