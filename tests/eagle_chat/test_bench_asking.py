"""Who answers when: every method the same prompts, side by side, each the first in turn."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from eagle_chat.bench_asking import Layout, Plan, Stopped, ask
from eagle_chat.benchmark import Reply
from eagle_chat.errors import EXIT_USAGE, UsageError
from eagle_chat.questions import Question, Task

Answered = tuple[str, tuple[int, ...], float]  # method, prompt, temperature


@dataclass
class Parrot:
    """Replies with a token of its own, and writes down when it was asked what."""

    name: str
    token: int
    log: list[Answered]
    stops_after: int = 1000

    def answer(self, prompt: list[int], temperature: float) -> Reply:
        """One token, or an interruption."""
        if len(self.log) >= self.stops_after:
            raise Stopped
        self.log.append((self.name, tuple(prompt), temperature))
        return Reply((self.token,), 0, 0.0)


def encode(messages: list[dict[str, str]]) -> list[int]:
    """A number for each character."""
    return [ord(char) for message in messages for char in message["content"]]


def said(tokens) -> str:
    """The characters again."""
    return "".join(map(chr, tokens))


LAYOUT = Layout(encode, said, context=100)


def tasks(*questions: tuple[str, ...]) -> list[Task]:
    """One task of these questions."""
    return [Task("sky", tuple(Question(turns, "sky.jsonl, line 1") for turns in questions))]


def parrots(*names: str, stops_after: int = 1000) -> tuple[list[Parrot], list[Answered]]:
    """Methods that reply with their first letter, and what they are asked."""
    log: list[Answered] = []
    return [Parrot(name, ord(name[0]), log, stops_after) for name in names], log


def test_methods_lie_side_by_side_and_take_turns():
    """Catches one method after another, and the same one always first."""
    contenders, log = parrots("none", "eagle2", "transformers")
    found = list(ask(Plan(tasks(("a",), ("b",), ("c",))), contenders, LAYOUT))
    assert [said(prompt) for _, prompt, _ in log] == [*"aaa", *"bbb", *"ccc"]
    orders = [list(one.replies) for one in found]
    assert orders == [
        ["none", "eagle2", "transformers"],
        ["eagle2", "transformers", "none"],
        ["transformers", "none", "eagle2"],
    ]


@pytest.mark.parametrize(("repeats", "questions"), [(1, 4), (2, 1), (2, 3)])
def test_no_temperature_has_a_favourite(repeats, questions):
    """Catches a count over temperatures: of two methods, each would always be the first at one."""
    contenders, _ = parrots("none", "eagle2")
    plan = Plan(tasks(*[("?",)] * questions), (0.0, 1.0), repeats)
    found = list(ask(plan, contenders, LAYOUT))
    assert len(found) == plan.prompts == 2 * repeats * questions
    first = Counter((one.temperature, next(iter(one.replies))) for one in found)
    assert set(first.values()) == {repeats * questions // 2}


def test_turns_go_on_from_plain_decoding():
    """Catches prompts that differ between methods, and a question that sees the one before it."""
    contenders, log = parrots("eagle2", "none")
    layout = Layout(encode, said, context=100, system="S")
    found = list(ask(Plan(tasks(("a", "b"), ("c",))), contenders, layout))
    assert [said(one.prompt) for one in found] == ["Sa", "Sanb", "Sc"]
    assert Counter(said(prompt) for _, prompt, _ in log) == {"Sa": 2, "Sanb": 2, "Sc": 2}


def test_a_reply_without_text_leaves_no_trace():
    """Catches two turns of the user in a row, or an empty one between them, which templates refuse."""
    contenders, _ = parrots("none")
    layout = Layout(encode, lambda tokens: "", context=100)
    found = list(ask(Plan(tasks(("a", "b"))), contenders, layout))
    assert [said(one.prompt) for one in found] == ["a", "b"]


def test_a_prompt_that_not_all_answered_is_left_out():
    """Catches a ratio of a whole reply and one that was interrupted."""
    contenders, log = parrots("none", "eagle2", stops_after=3)
    found = ask(Plan(tasks(("a",), ("b",))), contenders, LAYOUT)
    assert next(found).replies.keys() == {"none", "eagle2"}
    with pytest.raises(Stopped):
        next(found)
    assert len(log) == 3


def test_repeats_are_whole_passes():
    """Catches repeats right after each other, which see the same mood of the machine."""
    contenders, log = parrots("none")
    list(ask(Plan(tasks(("a",), ("b",)), repeats=2), contenders, LAYOUT))
    assert [said(prompt) for _, prompt, _ in log] == ["a", "b", "a", "b"]


def test_replies_that_fill_the_context():
    """Catches a second turn that no longer fits and ends in a traceback."""
    contenders, _ = parrots("none")
    layout = Layout(encode, lambda tokens: "x" * 98, context=100)
    with pytest.raises(UsageError, match=r"sky\.jsonl, line 1 and the replies to it .* 100 tokens") as raised:
        list(ask(Plan(tasks(("a", "b"))), contenders, layout))
    assert raised.value.exit_code == EXIT_USAGE
