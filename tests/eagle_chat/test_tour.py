"""The tour: what it says is what its traces hold, and it is printed where there is no screen."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from textwrap import wrap

import pytest

from eagle_chat.errors import EXIT_DONE
from eagle_chat.layout.states import by_score, confidences
from eagle_chat.tour.chapters import TEXTS, TRACES, Step, chapters, recorded
from eagle_chat.tour.facts import facts
from tests.eagle_chat.conftest import Ran, assert_refused

Command = Callable[..., Ran]
TITLES = [
    "Why decoding waits for memory",
    "Drafting",
    "The tree",
    "Value and rerank",
    "Verification in one pass",
    "Why the text cannot change",
    "Temperature and coupled noise",
    "When it loses",
]
STEPS = [
    pytest.param(step, id=f"{number}.{at}")
    for number, each in enumerate(chapters(), start=1)
    for at, step in enumerate(each.steps, start=1)
]


def step(chapter: int, number: int) -> Step:
    return chapters()[chapter - 1].steps[number - 1]


def bare_numbers(template: str) -> list[str]:
    """Numbers of a text that come from nowhere; fp32 is a name."""
    return re.findall(r"\b\d[\d.,]*", re.sub(r"\{\w+\}", "", template))


# what it says


def test_the_chapters_are_complete() -> None:
    """Catches a chapter that is missing, has nothing to see or nothing to try."""
    assert [each.title for each in chapters()] == TITLES
    assert all(len(each.steps) >= 2 and each.to_try for each in chapters())


@pytest.mark.parametrize("each", STEPS)
def test_every_number_comes_from_the_trace(each: Step) -> None:
    """Catches a number written into a text, which the next recording would make a lie; and unknown names."""
    assert bare_numbers(each.template) == []
    assert "{" not in each.text()
    assert "unknown" not in each.text()
    assert bare_numbers("of {kept} drafts 3 were right, 2.5 %") == ["3", "2.5"]


def test_facts_are_those_of_the_round() -> None:
    """Catches facts of another round, another node, or the wrong one of two replies."""
    own, plain = recorded("code"), recorded("code-plain")
    assert own.trace.summary is not None
    assert plain.trace.summary is not None
    record = own.trace.rounds[8].record
    found = facts(own, 8, 4, plain)
    assert found["run_tokens"] == str(len(own.trace.summary["tokens"]))
    assert found["speed"] == f"{own.trace.summary['tokens_per_second']:.1f}"
    assert found["plain_speed"] == f"{plain.trace.summary['tokens_per_second']:.1f}"
    assert found["same"] == str(len(own.trace.summary["tokens"]))
    assert (found["rows"], found["verify"]) == (str(len(record.tree.tokens)), f"{record.verify_ms:.0f}")
    assert record.tree.target is not None
    assert found["target"] == f"{100 * record.tree.target[4]:.0f}\N{NO-BREAK SPACE}%"
    assert found["token"] == "‘re’"
    assert (found["depth"], found["before"]) == ("1", "1")


def test_the_rounds_show_what_the_texts_say() -> None:
    """Catches recordings in which a round no longer shows the point of its step."""
    assert len(step(1, 1).record.tree.tokens) == 1
    numbers = facts(recorded("code"), 8, None, recorded("code-plain"))
    assert float(numbers["verify"]) < float(numbers["one_by_one"]) / 2
    tree = step(3, 2).record.tree
    siblings = by_score(tree, tree.children()[tree.parents[4]])
    assert siblings[1] == 4
    assert siblings[0] == step(6, 1).node
    assert 4 in step(3, 2).record.path
    assert step(3, 2).record.accepted == max(tree.depths())
    dropped = step(4, 2)
    assert dropped.node is not None
    left_out = dropped.record.tree.dropped[dropped.node - len(tree.tokens)]
    assert left_out.expanded
    assert tree.cutoff is not None
    assert left_out.value < tree.cutoff
    assert step(5, 2).record.bonus is not None
    assert step(5, 3).record.accepted == 0
    assert step(6, 2).replay.trace.info.dtype == "fp32"
    for own, plain in (("code", "code-plain"), ("warm", "warm-plain")):
        new = [[t for done in recorded(name).trace.rounds for t in done.record.new] for name in (own, plain)]
        assert new[0] == new[1]
    drawn = step(7, 1)
    assert drawn.node in drawn.record.path
    assert drawn.record.tree.target is not None
    chances = drawn.record.tree.target
    rivals = drawn.record.tree.children()[drawn.record.tree.parents[drawn.node]]
    assert max(chances[each] for each in rivals) > 10 * chances[drawn.node]
    assert (confidences(drawn.record.tree)[drawn.node] or 0) > 0.4
    losing = step(8, 2).replay.trace.summary, recorded("poem-plain").trace.summary
    assert losing[0] is not None
    assert losing[1] is not None
    assert losing[0]["tau"] > 1.5
    assert losing[0]["tokens_per_second"] < losing[1]["tokens_per_second"]


@pytest.mark.parametrize("each", STEPS)
def test_texts_are_short(each: Step) -> None:
    """Catches a text that leaves no room to the tree at 80x24."""
    lines = [line for part in each.text().split("\n") for line in wrap(part, 78) or [""]]
    assert len(lines) <= 8


def test_all_of_it_ships_and_is_small() -> None:
    """Catches data that stays behind when a wheel is built, or that makes it heavy."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["eagle_chat"]
    package = TEXTS.parent.parent
    for path in (TEXTS, package / "tour.tcss", *TRACES.iterdir()):
        assert any(fnmatch(path.relative_to(package).as_posix(), pattern) for pattern in patterns), path
    assert sum(path.stat().st_size for path in TRACES.iterdir()) < 200_000
    named = {name for each in chapters() for one in each.steps for name in (one.trace, one.against) if name}
    assert named == {path.name.removesuffix(".jsonl.gz") for path in TRACES.iterdir()}


# without a screen


def test_without_a_terminal_it_is_printed(command: Command) -> None:
    """Catches a tour that hangs in a pipe, or leaves out a chapter, a tree or what to try."""
    whole = command("tour")
    assert (whole.code, whole.err) == (EXIT_DONE, "")
    for number, each in enumerate(chapters(), start=1):
        assert f"\n{number}. {each.title}\n" in f"\n{whole.out}"
        assert f"Try: {each.to_try}" in whole.out
    flat = " ".join(whole.out.split())
    assert all(" ".join(one.text().split()) in flat for each in chapters() for one in each.steps)
    headings = ("── round ", "── draft tree", "── step by step")
    assert sum(map(whole.out.count, headings)) == len(STEPS)
    third = command("tour", 3).out
    assert third.startswith("3. The tree\n")
    assert third in whole.out
    assert "4. Value" not in third


def test_chapters_that_are_not_there(command: Command) -> None:
    """Catches a traceback over a number."""
    for number in (0, 9, 1000):
        assert_refused(command("tour", number), f"no chapter {number}", "chapters 1 to 8")
