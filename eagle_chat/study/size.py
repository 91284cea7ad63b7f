"""τ and speed against nodes, depth and beam, one of them changed at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log2
from typing import Any

from eagle_chat.study.asking import Answer, Pairs
from eagle_chat.study.chart import Drawing, Mark, Panel, Series, counted, number
from eagle_chat.study.lab import Lab
from eagle_chat.study.numbers import tau
from eagle_chat.tree_sizes import TreeSize
from engine import Costs, Drafter, NoDrafter, measure_costs

PLAIN = "plain"
FEW_ROUNDS = 100
TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the nodes
WIDER = (0.25, 0.5, 1.0, 2.0)  # of the beam
DEEPER = (1 / 3, 2 / 3, 1.0, 4 / 3, 5 / 3)  # of the depth


@dataclass
class Clock:
    """Milliseconds of one size's rounds, on the engine's clock and as the cost table has them."""

    measured: float = 0.0
    modelled: float = 0.0


class SizeFigure:
    """Sizes answer in turns. The model takes drafting as it was, and forwards from the cost table."""

    def __init__(self, lab: Lab) -> None:
        self.axes = axes(lab.size, lab.head.vocabulary)
        sizes = dict.fromkeys(size for along in self.axes.values() for size in along)
        self._drafters: dict[str, Drafter] = {PLAIN: NoDrafter()}
        self._drafters |= {_name(size): lab.eagle2(size) for size in sizes}
        for drafter in self._drafters.values():
            lab.warm_up(drafter)
        self._costs = _costs(lab)
        self.stages = (tuple(self._drafters),)
        self._pairs = Pairs(self.stages[0])
        self._clocks: dict[str, dict[int, Clock]] = {name: {} for name in self._drafters}

    def drafter(self, contender: str, question: int) -> Drafter:
        """Who drafts."""
        return self._drafters[contender]

    def add(self, answer: Answer) -> None:
        """Count a reply."""
        self._pairs.add(answer)
        clock = Clock()
        for record in answer.rounds:
            clock.measured += record.ms
            verify = 1000 * self._costs.verify(len(record.tree.tokens))
            clock.modelled += record.draft_ms + record.other_ms + verify
        self._clocks[answer.contender][answer.question] = clock

    def drawing(self) -> Drawing:
        """What is known so far."""
        found = self._found()
        rows = tuple(
            (
                name,
                number(one["tau"]),
                number(one["tokens_per_second"], 1),
                number(one["modelled"], 1),
                number(one["vs_plain"]),
                str(one["rounds"]),
            )
            for name, one in found.items()
        )
        panels = [self._panel(axis, "τ", ("tau",), found) for axis in self.axes]
        panels += [
            self._panel(axis, "tokens/s", ("tokens_per_second", "modelled"), found) for axis in self.axes
        ]
        heads = ("nodes/depth/beam", "τ", "tokens/s", "modelled", "× plain", "rounds")
        return Drawing(
            tuple(panels),
            heads,
            rows,
            f"fewer than {FEW_ROUNDS} rounds",
            self._notes(),
            beside=len(self.axes),
        )

    def as_json(self) -> dict[str, Any]:
        """The keys `sizes`, a list, and `plain`, what plain decoding reached."""
        found = self._found()
        sizes = dict.fromkeys(size for along in self.axes.values() for size in along)
        return {
            "sizes": [
                {"nodes": size.nodes, "depth": size.depth, "beam": size.beam, **found[_name(size)]}
                for size in sizes
            ],
            "plain": found[PLAIN],
            "axes": {axis: [_name(size) for size in along] for axis, along in self.axes.items()},
        }

    def _found(self) -> dict[str, dict[str, Any]]:
        """By size, over the questions that all have answered."""
        found = {}
        for name, clocks in self._clocks.items():
            tallies = self._pairs.by_task(name)
            every = [tally for task in tallies.values() for tally in task]
            tokens = sum(tally[0] for tally in every)
            done = [clocks[question] for question in self._pairs.complete]
            speeds = [
                _speed(tokens, sum(ms)) for ms in zip(*((c.measured, c.modelled) for c in done), strict=True)
            ]
            measured, modelled = speeds or (None, None)
            found[name] = {
                "tau": tau(tallies.values()),
                "tokens_per_second": measured,
                "modelled": modelled,
                "rounds": sum(tally[1] for tally in every),
            }
        plain = found[PLAIN]["tokens_per_second"]
        for one in found.values():
            speed = one["tokens_per_second"]
            one["vs_plain"] = speed / plain if speed and plain else None
        return found

    def _panel(self, axis: str, title: str, keys: tuple[str, ...], found: dict[str, dict[str, Any]]) -> Panel:
        names = {"tau": "τ", "tokens_per_second": "measured", "modelled": "modelled"}
        series = []
        for key in keys:
            marks = [
                Mark(_place(axis, size), one[key], few=one["rounds"] < FEW_ROUNDS)
                for size in self.axes[axis]
                if (one := found[_name(size)])[key] is not None
            ]
            series.append(Series(names[key], tuple(marks)))
        ticks = tuple((_place(axis, size), str(getattr(size, axis))) for size in self.axes[axis])
        return Panel(f"{title} by {axis}", tuple(series), ticks)

    def _notes(self) -> tuple[str, ...]:
        notes = [
            f"{counted(len(self._pairs.complete), 'question')} answered by all. No tree has more nodes "
            "than are drawn. Modelled: drafting as measured, forwards from the cost table.",
            self._pairs.note(),
        ]
        return tuple(note for note in notes if note)


def axes(base: TreeSize, vocabulary: int) -> dict[str, list[TreeSize]]:
    """Sizes along nodes, depth and beam through `base`, none of them with more nodes than are drawn."""
    largest = _drawn(base)
    nodes = {min(max(1, round(base.nodes * times)), largest) for times in TIMES}
    depths = {max(1, round(base.depth * times)) for times in DEEPER}
    beams = {min(max(1, round(base.beam * times)), vocabulary) for times in WIDER}
    along = {
        "nodes": [replace(base, nodes=count) for count in sorted(nodes)],
        "depth": [replace(base, depth=depth) for depth in sorted(depths)],
        "beam": [replace(base, beam=beam) for beam in sorted(beams)],
    }
    return {
        axis: [replace(size, nodes=min(size.nodes, _drawn(size))) for size in sizes]
        for axis, sizes in along.items()
    }


def _drawn(size: TreeSize) -> int:
    return size.beam + (size.depth - 1) * size.beam**2


def _name(size: TreeSize) -> str:
    return f"{size.nodes}/{size.depth}/{size.beam}"


def _place(axis: str, size: TreeSize) -> float:
    """Nodes and beam double, depth goes up."""
    value = getattr(size, axis)
    return float(value) if axis == "depth" else log2(value)


def _costs(lab: Lab) -> Costs:
    session = lab.session
    session.engine.reset()
    return measure_costs(
        session.engine.target, session.prompts.encode([{"role": "user", "content": "Hello"}])
    )


def _speed(tokens: int, ms: float) -> float | None:
    return 1000 * tokens / ms if tokens and ms > 0 else None
