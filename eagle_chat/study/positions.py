"""Acceptance by position in a fixed tree, and how it differs by context: why EAGLE-2 left the fixed tree."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from eagle_chat.evaluation import tested_nodes
from eagle_chat.study.asking import Answer
from eagle_chat.study.chart import FEW, FEW_TESTED, Drawing, Mark, Panel, Series, counted, number, share
from eagle_chat.study.fixed_tree import fixed_tree
from eagle_chat.study.lab import Lab
from eagle_chat.study.numbers import quartiles, times_chance
from engine import Drafter, Eagle
from engine.drafters.eagle import Path

ENOUGH = 5  # tests in a question, for its share to stand among the others
FOLLOWED = 3  # positions that are shown task by task
EAGLE = "eagle"
Counts = dict[int, tuple[int, int]]  # by question: accepted, tested


class PositionsFigure:
    """A position is a path of ranks: 1.2 is the second best child of the best child."""

    stages = ((EAGLE,),)

    def __init__(self, lab: Lab) -> None:
        self._drafter = Eagle(lab.head, fixed_tree(lab.size.nodes))
        self._counts: dict[Path, Counts] = {path: {} for path in self._drafter.paths}
        self._tasks: dict[int, str] = {}

    def drafter(self, contender: str, question: int) -> Drafter:
        """Who drafts."""
        return self._drafter

    def add(self, answer: Answer) -> None:
        """Count a reply. Near its end a tree has only its first nodes, whose positions are the same."""
        question = answer.question
        self._tasks[question] = answer.task
        for record in answer.rounds:
            for node in tested_nodes(record):
                counts = self._counts[self._drafter.paths[node - 1]]
                accepted, of = counts.get(question, (0, 0))
                counts[question] = accepted + (node in record.path), of + 1

    def drawing(self) -> Drawing:
        """What is known so far."""
        tasks = self._by_task()
        followed = sorted(self._counts, key=lambda path: -_sums(self._counts[path])[1])[:FOLLOWED]
        everywhere = Series(
            "all questions",
            tuple(
                _mark(place, counts) for place, counts in enumerate(self._counts.values()) if _sums(counts)[1]
            ),
            joined=False,
        )
        by_task = tuple(
            Series(
                f"position {_name(path)}",
                tuple(
                    _mark(place + 0.15 * shift, counts)
                    for place, counts in enumerate(self._within(path, task) for task in tasks)
                    if _sums(counts)[1]
                ),
                joined=False,
            )
            for shift, path in enumerate(followed, start=-1)
        )
        panels = (
            Panel("share accepted, by position", (everywhere,), self._ticks(), (0.0, 1.0)),
            Panel("the same positions, by task", by_task, tuple(enumerate(tasks)), (0.0, 1.0)),
        )
        heads = ("position", "tested", "accepted", "25 %", "50 %", "75 %", "× chance", *tasks)
        rows = tuple(self._row(path) for path in self._counts)
        return Drawing(panels, heads, rows, FEW_TESTED, self._notes(), narrowest=48)

    def as_json(self) -> dict[str, Any]:
        """The key `positions`, a list."""
        return {
            "positions": [
                {"path": [rank + 1 for rank in path], **_facts(counts)}
                | {"tasks": {task: _facts(self._within(path, task)) for task in self._by_task()}}
                for path, counts in self._counts.items()
            ]
        }

    def _by_task(self) -> dict[str, list[int]]:
        """Questions of each task."""
        found: dict[str, list[int]] = defaultdict(list)
        for question, task in self._tasks.items():
            found[task].append(question)
        return found

    def _within(self, path: Path, task: str) -> Counts:
        return {q: counts for q, counts in self._counts[path].items() if self._tasks[q] == task}

    def _ticks(self) -> tuple[tuple[float, str], ...]:
        return tuple((float(place), _name(path)) for place, path in enumerate(self._counts))

    def _row(self, path: Path) -> tuple[str, ...]:
        counts = self._counts[path]
        accepted, of = _sums(counts)
        parts = quartiles(_shares(counts)) or (None, None, None)
        by_task = [share(*_sums(self._within(path, task))) for task in self._by_task()]
        spread = number(times_chance(list(counts.values())) if of >= FEW else None, 1)
        return _name(path), str(of), share(accepted, of), *map(number, parts), spread, *by_task

    def _notes(self) -> tuple[str, ...]:
        return (
            f"Tested nodes only: those whose parent was accepted. {counted(len(self._tasks), 'question')}; "
            f"quartiles, drawn as lines, are over questions that tested a position {ENOUGH} times or more.",
            "× chance: how far the questions' shares spread; about 1 where context made no difference.",
        )


def _name(path: Path) -> str:
    return ".".join(str(rank + 1) for rank in path)


def _sums(counts: Counts) -> tuple[int, int]:
    return sum(accepted for accepted, _ in counts.values()), sum(of for _, of in counts.values())


def _shares(counts: Counts) -> list[float]:
    return [accepted / of for accepted, of in counts.values() if of >= ENOUGH]


def _mark(x: float, counts: Counts) -> Mark:
    accepted, of = _sums(counts)
    parts = quartiles(_shares(counts))
    return Mark(x, accepted / of, (parts[0], parts[2]) if parts else None, few=of < FEW)


def _facts(counts: Counts) -> dict[str, Any]:
    accepted, of = _sums(counts)
    parts = quartiles(_shares(counts))
    return {
        "tested": of,
        "accepted_share": accepted / of if of else None,
        "quartiles": list(parts) if parts else None,
        "times_chance": times_chance(list(counts.values())),
    }
