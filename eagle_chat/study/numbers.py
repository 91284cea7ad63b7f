"""The statistics of the figures: quartiles, spread beyond chance, and how sure a difference of τ is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import quantiles

import torch

from eagle_chat.evaluation import mean

RESAMPLES = 1000
Tally = tuple[int, int]  # of one question: tokens that rounds committed, and rounds


def tau(tasks: Iterable[Sequence[Tally]]) -> float | None:
    """The mean over the tasks of tokens a round; None before the first round."""
    return mean(pooled(tallies) for tallies in tasks)


def pooled(tallies: Sequence[Tally]) -> float | None:
    """Tokens a round; None without rounds."""
    rounds = sum(tally[1] for tally in tallies)
    return sum(tally[0] for tally in tallies) / rounds if rounds else None


def difference_interval(
    pairs: Mapping[str, Sequence[tuple[Tally, Tally]]], seed: int = 0
) -> tuple[float, float] | None:
    """Where 95 % of the differences of τ lie, first minus second, when questions are drawn anew (bootstrap).

    `pairs` by task: the same question asked twice. A question is drawn with both of its tallies, and within
    its task, so that what questions and tasks differ in does not count. None where a task has fewer than two.
    """
    if not pairs or min(map(len, pairs.values())) < 2:
        return None
    random = torch.Generator().manual_seed(seed)
    differences = torch.zeros(RESAMPLES, dtype=torch.float64)
    for task in pairs.values():
        tallies = torch.tensor(task, dtype=torch.float64)  # [n, 2, 2]
        drawn = torch.randint(len(task), (RESAMPLES, len(task)), generator=random)
        tokens, rounds = tallies[drawn].sum(1).unbind(-1)  # [RESAMPLES, 2]
        taus = tokens / rounds
        differences += (taus[:, 0] - taus[:, 1]) / len(pairs)
    known = differences[differences.isfinite()]
    if not len(known):
        return None
    low, high = known.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return low, high


def quartiles(values: Sequence[float]) -> tuple[float, float, float] | None:
    """The quarter points; None of fewer than two values."""
    if len(values) < 2:
        return None
    first, middle, third = quantiles(values, n=4, method="inclusive")
    return first, middle, third


def times_chance(counts: Sequence[tuple[int, int]]) -> float | None:
    """How far shares spread, in terms of chance: about 1 where all have the same one behind them.

    `counts` are (accepted, tested) of several questions; it is chi-square by its degrees of freedom.
    """
    counts = [(accepted, tested) for accepted, tested in counts if tested]
    all_tested = sum(tested for _, tested in counts)
    p = sum(accepted for accepted, _ in counts) / all_tested if all_tested else 0.0
    if len(counts) < 2 or not 0 < p < 1:
        return None
    squares = sum((accepted - p * tested) ** 2 / (p * (1 - p) * tested) for accepted, tested in counts)
    return squares / (len(counts) - 1)
