"""The questions that come with eagle-chat: whole, sensible in number and length, and ours."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from eagle_chat.errors import UsageError
from eagle_chat.questions import TASKS, own_files, read_tasks

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "questions"


def test_every_task_has_questions():
    """Catches a file that is missing, misnamed or broken, and a set that is too small to say anything."""
    tasks = read_tasks(own_files("all"))
    assert [task.name for task in tasks] == list(TASKS)
    for task in tasks:
        assert 10 <= len(task.questions) <= 12
        assert len({question.turns for question in task.questions}) == len(task.questions)
    turns = {task.name: {len(question.turns) for question in task.questions} for task in tasks}
    assert turns.pop("conversation") == {2, 3}
    assert set().union(*turns.values()) == {1}


def test_fields_are_those_of_the_standard_format():
    """Catches a question without its number or of another task, which other tools would stumble over."""
    for path in own_files("all"):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert [line["question_id"] for line in lines] == list(range(1, len(lines) + 1))
        assert {line["category"] for line in lines} == {path.stem}


def test_texts_to_summarise_are_as_long_as_articles():
    """Catches a summary of nothing."""
    (task,) = read_tasks(own_files("summary"))
    for question in task.questions:
        _, text = question.turns[0].split("\n\n", 1)
        assert 150 <= len(text.split()) <= 300


def test_they_are_installed():
    """Catches files that exist in the repository only."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "questions/*.jsonl" in project["tool"]["setuptools"]["package-data"]["eagle_chat"]


def test_names_of_tasks():
    """Catches a name that is ignored, a task that is asked twice, and `all` beside another name."""
    assert [path.stem for path in own_files("code, math,code")] == ["code", "math"]
    assert own_files("math,all") == own_files("all")
    with pytest.raises(UsageError, match="--tasks knows no 'maths': choose from all, conversation"):
        own_files("maths")


def runs_of_words(text: str, length: int) -> set[tuple[str, ...]]:
    """All that are that long."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="no published questions here to compare with")
def test_they_are_our_own():
    """Catches a question that is copied: eight words in a row that a published set has, too."""
    theirs: set[tuple[str, ...]] = set()
    for task in read_tasks(sorted(PUBLISHED.glob("*.jsonl"))):
        for question in task.questions:
            theirs |= runs_of_words(" ".join(question.turns), 8)
    assert theirs
    for task in read_tasks(own_files("all")):
        for question in task.questions:
            assert not runs_of_words(" ".join(question.turns), 8) & theirs, question
