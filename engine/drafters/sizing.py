"""How large a tree pays: expected tokens by milliseconds, round by round.

A tree of N nodes is expected to commit 1 + the sum of its nodes' values, for the time of its levels and of
a forward over N + 1 rows. Both are known before the forward, so that the best N can be looked up; one more
level is drawn where what its nodes are likely to be worth makes the best tree faster. Where drafting has been
slower than plain decoding for a while, it rests, and is tried again now and then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import accumulate

from torch import Tensor

from engine.costs import Costs, Follower
from engine.tree import Sizing

TRIED = 12  # drafted rounds, before drafting is judged
FIRST_REST, LONGEST_REST = 8, 64  # plain rounds; doubled while drafting stays slower
JUDGED = 0.95  # of what was known of drafted rounds, from round to round
FOLLOWED = 0.05  # share of a new level in what is believed of the next
PLAIN_EVERY = 64  # rounds: what plain decoding takes must be known
LEVEL_EVERY = 16  # rounds: what a level takes and brings, too
AFTER_REST = 3  # nodes at least, or the costs of trees would never be seen again


@dataclass
class Trial:
    """How drafting has done of late."""

    tokens: float = 0.0
    seconds: float = 0.0
    rounds: int = 0
    rest: int = 0  # plain rounds still to come
    next_rest: int = FIRST_REST
    since_plain: int = 0
    is_probe: bool = False  # the rest is a single round, while drafting pays
    was_resting: bool = False


class TreeSizing:
    """Chooses depth and nodes of each round's tree, `nodes` at most, and whether to draft at all."""

    def __init__(self, costs: Costs, nodes: int) -> None:
        self.costs = costs
        self.nodes = nodes
        self.root = Follower()  # seconds of the catch-up and the first level, or what is drawn at once
        self.level = Follower()  # of each further one
        self.children = [0.5, 0.15, 0.05]  # confidences of the best candidates below a node, best first
        self.since_level = 0
        self._trials = {True: Trial(), False: Trial()}
        self._trial = self._trials[True]

    def decoding(self, greedy: bool) -> None:
        """What pays when decoding greedily may not when sampling: each is judged apart."""
        self._trial = self._trials[greedy]

    @property
    def is_resting(self) -> bool:
        """Whether the next round is a plain one."""
        return self._trial.rest > 0

    def rest(self) -> Sizing:
        """The choice of a round without drafting."""
        trial, plain = self._trial, self.costs.verify(1)
        trial.rest -= 1
        trial.was_resting = not trial.is_probe
        return Sizing(0, 0, 1.0, plain, plain, "probe" if trial.is_probe else "rest")

    def begin(self, values: Tensor, seconds: float, levels: int = 1) -> GrowingTree:
        """A round of which so many levels took so long, with the catch-up; their best values, best first."""
        growing = GrowingTree(self, values, seconds, levels, AFTER_REST if self._trial.was_resting else 0)
        self._trial.was_resting = False
        self.since_level += 1
        return growing

    def learn(self, sizing: Sizing, tokens: int) -> None:
        """A drafted round of that size committed so many."""
        trial = self._trial
        trial.tokens = JUDGED * trial.tokens + tokens
        trial.seconds = JUDGED * trial.seconds + sizing.seconds
        trial.rounds += 1
        trial.since_plain += 1
        if trial.since_plain >= PLAIN_EVERY:
            trial.since_plain, trial.rest, trial.is_probe = 0, 1, True
        if trial.rounds < TRIED:
            return
        if trial.tokens * sizing.plain < trial.seconds:
            trial.rest, trial.next_rest = trial.next_rest, min(2 * trial.next_rest, LONGEST_REST)
            trial.is_probe = False
            trial.tokens, trial.seconds, trial.rounds, trial.since_plain = 0.0, 0.0, TRIED // 2, 0
        else:
            trial.next_rest = FIRST_REST


class GrowingTree:
    """One round's tree while its levels are drawn."""

    def __init__(self, sizing: TreeSizing, values: Tensor, seconds: float, levels: int, least: int) -> None:
        began = time.perf_counter()
        self._sizing = sizing
        self._least = least  # nodes
        self._levels = self._at_once = levels
        self._verify = sizing.costs.up_to(sizing.nodes + 1)  # by nodes
        self._values: list[float] = values.exp().tolist()  # of the best candidates so far, best first
        sizing.root.saw(seconds + time.perf_counter() - began)
        self._best = self._best_of(self._values, levels)

    def is_level_worth_it(self, frontier: Tensor) -> bool:
        """Whether a level below nodes of these log-values [K] is likely to make a faster tree."""
        self._began = time.perf_counter()
        guessed = [value * share for value in frontier.exp().tolist() for share in self._sizing.children]
        then = self._best_of(sorted([*self._values, *guessed], reverse=True), self._levels + 1)
        return then[0] > self._best[0] or self._sizing.since_level >= LEVEL_EVERY

    def drew(self, confidences: Tensor, values: Tensor) -> None:
        """A level has log-confidences [K, K], best first, and log-values [K * K]."""
        sizing = self._sizing
        sizing.since_level = 0
        self._levels += 1
        merged = sorted([*self._values, *values.exp().tolist()], reverse=True)
        self._values = merged[: sizing.nodes]
        pairs = zip(sizing.children, confidences.exp().mean(0).tolist(), strict=False)
        sizing.children = [old + FOLLOWED * (new - old) for old, new in pairs]
        sizing.level.saw(time.perf_counter() - self._began)
        self._best = self._best_of(self._values, self._levels)

    def choose(self) -> Sizing:
        """The best tree of all that was drawn."""
        _, nodes, expected, seconds = self._best
        return Sizing(nodes, self._levels, expected, seconds, self._verify[0])

    def _best_of(self, values: list[float], levels: int) -> tuple[float, int, float, float]:
        """Tokens a second, nodes, expected tokens and seconds of the fastest tree of the best of `values`."""
        drafted = self._sizing.root.value + (levels - self._at_once) * self._sizing.level.value
        expected = list(accumulate(values[: self._sizing.nodes], initial=1.0))  # by nodes
        speeds = [e / (drafted + seconds) for e, seconds in zip(expected, self._verify, strict=False)]
        least = min(self._least, len(speeds) - 1)
        speed = max(speeds[least:])
        nodes = speeds.index(speed, least)
        return speed, nodes, expected[nodes], drafted + self._verify[nodes]
