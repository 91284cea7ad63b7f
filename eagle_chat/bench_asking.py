"""Who answers when in a benchmark: every method the same prompt, one right after the other, in turns.

It knows no tokenizer and no torch; methods and the layout of prompts are handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eagle_chat.benchmark import PLAIN, Asked, Reply
from eagle_chat.errors import UsageError
from eagle_chat.questions import Question, Task

if TYPE_CHECKING:
    from eagle_chat.text import Message


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


def ask(plan: Plan, contenders: Sequence[Contender], layout: Layout) -> Iterator[Asked]:
    """Every prompt with the replies of all methods. Raises Stopped, and UsageError for one that is too long.

    Another method begins at each prompt, so that no drift of the machine favours one of them.
    """
    for repeat in range(plan.repeats):
        place = repeat
        for task in plan.tasks:
            for question in task.questions:
                for temperature in plan.temperatures:  # all of them with the same method first
                    yield from _converse(
                        task.name, question, temperature, _rotations(contenders, place), layout
                    )
                place += 1


def _rotations(contenders: Sequence[Contender], place: int) -> Iterator[list[Contender]]:
    """The order for one prompt after another; the first one begins with the method at `place`."""
    while True:
        first = place % len(contenders)
        yield [*contenders[first:], *contenders[:first]]
        place += 1


def _converse(
    task: str, question: Question, temperature: float, orders: Iterator[list[Contender]], layout: Layout
) -> Iterator[Asked]:
    """The turns as one conversation, which goes on from plain decoding's replies, for all methods.

    Without plain decoding it goes on from the reply of the method that began.
    """
    messages = layout.opening()
    for turn, order in zip(question.turns, orders, strict=False):
        asked = [*messages, {"role": "user", "content": turn}]
        prompt = layout.encode(asked)
        if len(prompt) >= layout.context:
            raise UsageError(
                f"{question.where} and the replies to it are longer than the context of "
                f"{layout.context} tokens: lower --max-new-tokens"
            )
        replies = {contender.name: contender.answer(prompt, temperature) for contender in order}
        yield Asked(task, temperature, tuple(prompt), replies)
        text = layout.text(replies.get(PLAIN, replies[order[0].name]).tokens)
        if text:  # two user turns in a row fit no template
            messages = [*asked, {"role": "assistant", "content": text}]
