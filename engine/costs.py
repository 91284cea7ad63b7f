"""What the target's forwards cost, by their rows: measured once, followed while decoding."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Mapping

import torch

from engine.target import Target
from engine.tree import DraftTree

ROWS = (1, 2, 4, 6, 7, 10, 11, 14, 20, 33)  # of the measured forwards: products have steps
FEW_ROWS = (1, 5, 17)  # where all of them would take long
SLOW = 0.025  # seconds of a forward over one row, from which on they would
LIMITS = (math.inf, 5.0, 1.0)  # seconds spent, from which on no first, second, third repeat is begun
FOLLOWED = 0.1  # share of a new observation in what is believed
SINGLE = 0.3  # the same, of the rare plain rounds in what is believed of them


class Follower:
    """A duration that is followed: a moving average that a single slow round cannot throw.

    What is slow is so by chance, what is fast can be had: it follows downwards faster.
    """

    def __init__(self, value: float | None = None, followed: float = FOLLOWED) -> None:
        self._value = value
        self._followed = followed

    @property
    def value(self) -> float:
        """Seconds; 0 before the first observation."""
        return self._value or 0.0

    def saw(self, value: float) -> None:
        """Move towards `value`, which counts as at most twice what was believed."""
        if not self._value:
            self._value = value
        elif value < self._value:
            self._value += min(1.0, 3 * self._followed) * (value - self._value)
        else:
            self._value += self._followed * (min(value, 2 * self._value) - self._value)


class Costs:
    """Seconds of a target forward by its rows.

    The proportions are those measured at load. What follows the forwards that are run, as the context grows
    and the machine changes, is a common factor, and apart from it the place of a single row: whether drafting
    pays must not hang on a measurement of long ago.
    """

    def __init__(self, seconds: Mapping[int, float]) -> None:
        """`seconds` by rows, of at least one number of them."""
        self._rows = sorted(seconds)
        self._seconds = [max(seconds[rows], 1e-9) for rows in self._rows]
        for i in range(1, len(self._rows)):  # more rows never cost less: that was noise
            self._seconds[i] = max(self._seconds[i], self._seconds[i - 1])
        self._factor = Follower(1.0)
        self._single = Follower(1.0, SINGLE)  # on top of the factor, for one row
        self._table: list[float] = []  # what was asked for so far

    def verify(self, rows: int) -> float:
        """Seconds of a forward over `rows`, on a line through the nearest two that were measured."""
        return self._factor.value * self._measured(rows) * (self._single.value if rows == 1 else 1.0)

    def up_to(self, rows: int) -> list[float]:
        """Seconds of forwards over 1 … `rows` rows."""
        if len(self._table) < rows:
            self._table = [self._measured(n) for n in range(1, rows + 1)]
        factor = self._factor.value
        return [self.verify(1), *(factor * seconds for seconds in self._table[1:rows])]

    def saw(self, rows: int, seconds: float) -> None:
        """A forward over `rows` took that long."""
        ratio = seconds / self._measured(rows)
        if rows == 1:
            self._single.saw(ratio / self._factor.value)
        else:
            self._factor.saw(ratio)

    def _measured(self, rows: int) -> float:
        if len(self._rows) == 1:
            return self._seconds[0]
        i = min(max(bisect_left(self._rows, rows), 1), len(self._rows) - 1)
        (r0, r1), (s0, s1) = self._rows[i - 1 : i + 1], self._seconds[i - 1 : i + 1]
        return s0 + (s1 - s0) * (rows - r0) / (r1 - r0)


@torch.inference_mode()
def measure_costs(target: Target, prompt: list[int]) -> Costs:
    """Costs of trees below `prompt`; the cache must be empty, and is again."""
    for _ in target.extend(prompt):
        pass
    single = _star(1, prompt[-1])
    _seconds(target, single)  # builds kernels, as the first repeat does
    slow = _seconds(target, single) > SLOW
    trees = [_star(rows, prompt[-1]) for rows in (FEW_ROWS if slow else ROWS)]
    repeats: list[list[float]] = []
    for limit in LIMITS:
        if sum(map(sum, repeats)) < limit:
            repeats.append([_seconds(target, tree) for tree in trees])
    # The fastest of each: what slowed the others down was not the rows.
    seconds = {len(tree): min(times) for tree, times in zip(trees, zip(*repeats, strict=True), strict=True)}
    target.rewind(0)
    return Costs(seconds)


def _star(rows: int, token: int) -> DraftTree:
    """A root and `rows` - 1 children."""
    return DraftTree(torch.full((rows,), token), torch.tensor([-1, *[0] * (rows - 1)]))


def _seconds(target: Target, tree: DraftTree) -> float:
    before = target.length
    began = time.perf_counter()
    logits, _ = target.verify(tree)
    logits[-1, 0].item()  # on a GPU: wait
    seconds = time.perf_counter() - began
    target.rewind(before)
    return seconds
