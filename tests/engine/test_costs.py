"""What forwards are believed to cost: measured once within a budget, followed without being thrown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest
import torch
from torch import Tensor

from engine import (
    Costs,
    DraftTree,
    Engine,
    GenerationSettings,
    LeanTarget,
    StockTarget,
    Target,
    measure_costs,
)
from tests.engine.conftest import Bench
from tests.engine.stubs import Noise, plain_reply, reply, rounds
from tests.engine.tiny import make_model

PROMPT = [8, 2, 61, 30, 4, 4, 19]


@pytest.mark.parametrize(
    ("rows", "seconds"), [(1, 1.0), (2, 1.5), (3, 2.0), (4, 3.0), (6, 5.0), (9, 8.0), (12, 11.0)]
)
def test_between_and_beyond_what_was_measured(rows: int, seconds: float) -> None:
    """A wrong neighbour, or a step where a line was meant; the mapping's order taken for that of the rows."""
    assert Costs({9: 8.0, 1: 1.0, 3: 2.0}).verify(rows) == pytest.approx(seconds)


def test_more_rows_never_cost_less() -> None:
    """A measurement that was disturbed at few rows: the tree would grow for a gain that is none."""
    costs = Costs({1: 2.0, 2: 1.0, 3: 1.5, 5: 3.0, 9: 2.0})
    seconds = [costs.verify(rows) for rows in range(1, 20)]
    assert seconds == sorted(seconds)
    assert seconds[:3] == [2.0, 2.0, 2.0]
    assert costs.verify(5) == costs.verify(9) == 3.0


def test_one_measurement_is_all_there_is() -> None:
    """A line through one point."""
    costs = Costs({1: 0.25})
    assert [costs.verify(rows) for rows in (1, 2, 60)] == [0.25] * 3
    costs.saw(1, 0.25)
    assert costs.verify(7) == pytest.approx(0.25)


def test_a_single_outlier_does_not_throw_it() -> None:
    """A second in which another program had the processor: the next trees would be sized for that."""
    costs = Costs({1: 1.0, 5: 2.0})
    costs.saw(5, 1000.0)
    assert 0.85 < costs.verify(1) < 1.15
    for _ in range(60):
        costs.saw(5, 2.0)
    assert costs.verify(5) == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("change", [20.0, 3.0, 0.4, 0.05])
def test_a_lasting_change_is_followed(change: float) -> None:
    """A bound against outliers that also shuts out what stays: a longer context, a throttled processor."""
    costs = Costs({1: 1.0, 3: 2.0, 9: 8.0})
    truth = {1: 1.0, 3: 2.0, 9: 8.0, 6: 5.0}
    for i in range(200):
        rows = [1, 9, 6, 3][i % 4]
        costs.saw(rows, change * truth[rows])
    for rows, seconds in truth.items():
        assert costs.verify(rows) == pytest.approx(change * seconds, rel=0.01)


def test_the_engine_tells_every_forward(llama: Bench) -> None:
    """Seconds of a tree booked under the rows of another one, or of the prefill."""
    seen: list[int] = []

    class Listening(Costs):
        def saw(self, rows: int, seconds: float) -> None:
            assert seconds > 0
            seen.append(rows)

    engine = Engine(
        StockTarget(llama.target.model), {"noise": Noise(llama.target.vocabulary)}, Listening({1: 1.0})
    )
    for method in ("noise", "none"):
        seen.clear()
        sizes = [len(r.tree) for r in rounds(engine, PROMPT, GenerationSettings(max_new_tokens=15), method)]
        assert seen == sizes[1:]
        engine.reset()


@pytest.mark.parametrize("make", [StockTarget, LeanTarget])
def test_measuring_leaves_nothing_behind(make: Callable[..., Target]) -> None:
    """Rows of measured trees below the first reply."""
    target = make(make_model("llama"))
    costs = measure_costs(target, PROMPT)
    assert target.length == 0
    seconds = [costs.verify(rows) for rows in range(1, 80)]
    assert 0 < seconds[0] < 60
    assert seconds == sorted(seconds)
    settings = GenerationSettings(max_new_tokens=20)
    other = StockTarget(make_model("llama"))
    assert reply(Engine(target), [5, 6, 7], settings) == plain_reply(other, [5, 6, 7], settings)


@pytest.mark.parametrize("make", [StockTarget, LeanTarget])
def test_measuring_in_a_small_context(make: Callable[..., Target]) -> None:
    """A context in which the largest measured tree does not fit: the program would not even start."""
    target = make(make_model("llama", context=32))
    assert measure_costs(target, PROMPT).verify(1) > 0
    assert target.length == 0


class SlowTarget:
    """Forwards that take made-up seconds, on a clock of its own."""

    device = torch.device("cpu")

    def __init__(self, seconds: Callable[[int], float], patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.length = 0
        self.verified: list[int] = []
        self._seconds = seconds
        patch.setattr("time.perf_counter", lambda: self.now)

    def extend(self, tokens: list[int]) -> Iterator[None]:
        """The prompt, in no time."""
        self.length += len(tokens)
        yield None

    def verify(self, tree: DraftTree) -> tuple[Tensor, None]:
        """Takes its time."""
        self.verified.append(len(tree))
        self.length += len(tree)
        self.now += self._seconds(len(tree))
        return torch.zeros(len(tree), 1), None

    def rewind(self, length: int) -> None:
        """Forgets."""
        self.length = length


SLOW: dict[str, Callable[[int], float]] = {
    "every forward": lambda rows: 0.3,
    "by rows": lambda rows: 0.05 + 0.05 * rows,
    "a quarter of a second, and rows": lambda rows: 0.25 + 0.02 * rows,
    "many rows": lambda rows: 0.01 if rows < 17 else 0.002 * rows,
    "one row takes little": lambda rows: 0.02 * (1 + rows / 10),
}


@pytest.mark.parametrize("kind", SLOW)
def test_slow_forwards_are_soon_measured(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large model on a small machine that measures for half a minute before the first word."""
    target = SlowTarget(SLOW[kind], monkeypatch)
    costs = measure_costs(cast(Target, target), PROMPT)
    assert target.now <= 5
    assert target.length == 0
    assert costs.verify(1) == pytest.approx(SLOW[kind](1))


def test_very_slow_forwards_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience that ends before anything was measured, costs of nothing; or that never ends."""
    target = SlowTarget(lambda rows: 10.0, monkeypatch)
    costs = measure_costs(cast(Target, target), PROMPT)
    assert [costs.verify(rows) for rows in (1, 9, 61)] == [pytest.approx(10.0)] * 3
    assert len(target.verified) <= 6


@pytest.mark.parametrize("row", [0.001, 0.03])
def test_the_first_forward_of_a_kind_does_not_count(row: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels built lazily, or a busy moment, taken for the price of the rows."""
    target = SlowTarget(lambda rows: row * rows * (5 if target.verified.count(rows) == 1 else 1), monkeypatch)
    costs = measure_costs(cast(Target, target), PROMPT)
    assert [costs.verify(rows) for rows in (1, 11, 33)] == pytest.approx([row, 11 * row, 33 * row])


def test_what_was_too_slow_to_measure_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows beyond the budget believed to cost nothing: the slowest machines would get the largest trees."""
    target = SlowTarget(lambda rows: 0.3 * rows, monkeypatch)
    costs = measure_costs(cast(Target, target), PROMPT)
    assert costs.verify(33) >= 0.5 * 0.3 * 33
    assert costs.verify(61) >= 0.5 * 0.3 * 61
