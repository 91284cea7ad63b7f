"""EAGLE-2 without one of its ideas (the paper's table 3): what the value and the rerank add to τ."""

from __future__ import annotations

from typing import Any

from eagle_chat.study.asking import Answer, Pairs
from eagle_chat.study.chart import Drawing, Mark, Panel, Series, counted, number
from eagle_chat.study.fixed_tree import fixed_tree
from eagle_chat.study.lab import Lab
from eagle_chat.study.numbers import difference_interval, tau
from engine import Ablation, Drafter, Eagle, Eagle2

FULL, EAGLE = "eagle2", "eagle"
PARTS = {
    FULL: Ablation(),
    "no-value": Ablation(value=False),
    "no-rerank": Ablation(rerank=False),
    "neither": Ablation(value=False, rerank=False),
}
FEW_QUESTIONS = 20
PAPER = (
    "The paper (Vicuna-7B, 60/6/10; MT-bench, GSM8K): without value 0.59 and 1.01 below, without rerank "
    "0.12 and 0.12, without both 1.06 and 1.04."
)


class AblationFigure:
    """All variants ask the same head, without calibration, for trees of the same number of nodes."""

    stages = ((*PARTS, EAGLE),)

    def __init__(self, lab: Lab) -> None:
        self._size = size = lab.size
        self._drafters: dict[str, Drafter] = {
            name: Eagle2(lab.head, size.nodes, size.depth, size.beam, ablation=ablation)
            for name, ablation in PARTS.items()
        }
        self._drafters[EAGLE] = Eagle(lab.head, fixed_tree(size.nodes))
        self._pairs = Pairs(self.stages[0])

    def drafter(self, contender: str, question: int) -> Drafter:
        """Who drafts."""
        return self._drafters[contender]

    def add(self, answer: Answer) -> None:
        """Count a reply."""
        self._pairs.add(answer)

    def drawing(self) -> Drawing:
        """What is known so far."""
        found = self.as_json()["variants"]
        tasks = list(self._pairs.by_task(FULL))
        few = len(self._pairs.complete) < FEW_QUESTIONS
        taus = tuple(
            Mark(float(x), one["tau"], few=few)
            for x, one in enumerate(found.values())
            if one["tau"] is not None
        )
        lost = tuple(
            Mark(float(x), one["difference"], one["interval"], few)
            for x, one in enumerate(found.values())
            if one["difference"] is not None
        )
        ticks = tuple((float(x), name) for x, name in enumerate(found))
        panels = (
            Panel("τ, tokens a round", (Series("τ", taus, joined=False),), ticks),
            Panel("difference from eagle2", (Series("difference, 95 %", lost, joined=False),), ticks[1:]),
        )
        heads = ("variant", *(f"τ\n{task}" for task in tasks), "τ", "difference", "95 %", "rounds", "tokens")
        rows = tuple(_row(name, one) for name, one in found.items())
        return Drawing(
            panels, heads, rows, f"fewer than {FEW_QUESTIONS} questions", self._notes(), narrowest=48
        )

    def as_json(self) -> dict[str, Any]:
        """The keys `variants`, by name; `paired_questions`; `parted_questions`, which had other texts."""
        return {
            "variants": {name: self._variant(name) for name in self._drafters},
            "paired_questions": len(self._pairs.complete),
            "parted_questions": len(self._pairs.parted & self._pairs.complete.keys()),
        }

    def _variant(self, name: str) -> dict[str, Any]:
        own, full = self._pairs.by_task(name), self._pairs.by_task(FULL)
        ours, best = tau(own.values()), tau(full.values())
        difference = None
        if name != FULL and ours is not None and best is not None:
            difference = ours - best
        together = {task: list(zip(own[task], full[task], strict=True)) for task in own}
        every = [tally for tallies in own.values() for tally in tallies]
        return {
            "tau": ours,
            "tasks": {task: tau([tallies]) for task, tallies in own.items()},
            "difference": difference,
            "interval": None if difference is None else difference_interval(together),
            "rounds": sum(rounds for _, rounds in every),
            "tokens": sum(tokens for tokens, _ in every),
        }

    def _notes(self) -> tuple[str, ...]:
        questions = len(self._pairs.complete)
        few = " That is few: other questions may turn the order." if questions < FEW_QUESTIONS else ""
        notes = [
            f"{counted(questions, 'question')} answered by all.{few} Intervals are of the difference over "
            "the same questions (bootstrap); they want two questions of each task.",
            self._pairs.note(),
            self._half_a_rerank(),
            PAPER,
        ]
        return tuple(note for note in notes if note)

    def _half_a_rerank(self) -> str | None:
        expanded = self._size.depth * self._size.beam
        if expanded <= self._size.nodes:
            return None
        return (
            f"Without the rerank the best {self._size.nodes} of {expanded} expanded nodes are kept, which is "
            "half a rerank: as many nodes as depth times beam leave none."
        )


def _row(name: str, one: dict[str, Any]) -> tuple[str, ...]:
    interval = one["interval"]
    difference = "" if name == FULL else _signed(one["difference"])
    ends = f"{_signed(interval[0])} to {_signed(interval[1])}" if interval else "" if name == FULL else "–"
    taus = [number(value) for value in one["tasks"].values()]
    return name, *taus, number(one["tau"]), difference, ends, str(one["rounds"]), str(one["tokens"])


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
