"""EAGLE-2 with prompt lookup: what followed the current n-gram before hangs in the tree as one more branch.

A head knows what is likely, a lookup what was there: texts that copy, a summary's or a program's, run long
along the second (suffix decoding has the idea for whole drafts; Oliaro et al., 2024). How often the text goes
on as looked up is counted by the length of the match, in every round and for nothing, since the text comes
anyway; a node is added where that chance is worth its row.
"""

from __future__ import annotations

import math

from torch import Tensor

from engine.costs import Costs
from engine.drafters.eagle2 import Eagle2
from engine.drafters.lookup import Match, PromptLookup
from engine.sampling import Sampler
from engine.tree import DraftTree

MEMORY = 0.98  # of what was counted, from match to match
PRIOR = 3.0  # matches that must be seen before they outweigh the guess
GUESS = 0.5  # that a looked-up token is right


class Chances:
    """How often the text went on as looked up, by the length of the match and whether it already had."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, bool], tuple[float, float]] = {}  # right, and all

    def of(self, match: Match) -> list[float]:
        """Of each token of the match, that the text has it and all before it."""
        first, later = self._share(len(match.words), False), self._share(len(match.words), True)
        return [first * later**i for i in range(len(match.tokens))]

    def learn(self, match: Match, tokens: list[int]) -> None:
        """After the match's words the text went on with `tokens`."""
        for i, (guess, token) in enumerate(zip(match.tokens, tokens, strict=False)):
            key = len(match.words), i > 0
            right, seen = self._counts.get(key, (0.0, 0.0))
            self._counts[key] = MEMORY * right + (guess == token), MEMORY * seen + 1
            if guess != token:
                return

    def _share(self, words: int, went_on: bool) -> float:
        right, seen = self._counts.get((words, went_on), (0.0, 0.0))
        return (right + PRIOR * GUESS) / (seen + PRIOR)


class Grafted:
    """The tree of `eagle`, and below it what `lookup` finds, as far as that pays by `costs`.

    Without costs all that is found is added.
    """

    def __init__(self, eagle: Eagle2, lookup: PromptLookup, costs: Costs | None = None) -> None:
        self.eagle, self.lookup, self.costs = eagle, lookup, costs
        self.taps = eagle.taps
        self.chances = Chances()
        self._match: tuple[Match, int] | None = None  # the last one, and how many tokens the text had
        self._proposed: tuple[DraftTree, int] | None = None  # the last tree, and how many nodes are EAGLE-2's

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """What either learns, and how often the lookup was right."""
        if self._match:
            match, length = self._match
            self.chances.learn(match, tokens[length:])
        if self._proposed and len(logits) == len(self._proposed[0]):
            own = self._proposed[1]
            logits, path = logits[:own], [node for node in path if node < own]
        self._match = self._proposed = None
        self.eagle.observe(tokens, features, logits, path)
        self.lookup.observe(tokens, features, logits, path)

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """EAGLE-2's tree with the branch, which may begin along nodes that are there."""
        tree = grafted = self.eagle.propose(tokens, sampler)
        match = self.lookup.find(tokens)
        if match:
            self._match = match, len(tokens)
            grafted = self._graft(tree, match)
        self._proposed = grafted, len(tree)
        return grafted

    def rewind(self, length: int) -> None:
        """Both."""
        self._match = self._proposed = None
        self.eagle.rewind(length)
        self.lookup.rewind(length)

    def _graft(self, tree: DraftTree, match: Match) -> DraftTree:
        """The tree with as much of the match as pays; tokens that have a node already share it."""
        node, shared = follow(tree, match.tokens)
        chances = self.chances.of(match)[shared:]
        new = match.tokens[shared:][: self._worth(tree, chances)]
        if not new:
            return tree
        above = tree.values[node].item() if tree.values is not None else 0.0
        return tree.with_branch(node, new, [min(above, math.log(chance)) for chance in chances[: len(new)]])

    def _worth(self, tree: DraftTree, chances: list[float]) -> int:
        """How many tokens with these chances bring more than the time of their rows would bring elsewhere."""
        if self.costs is None:
            return len(chances)
        speed = tree.sizing.expected / tree.sizing.seconds if tree.sizing else 1 / self.costs.verify(1)
        seconds = self.costs.up_to(len(tree) + len(chances))[len(tree) - 1 :]
        gain, best, worth = 0.0, 0.0, 0
        for count, chance in enumerate(chances, start=1):  # a row may cost nothing after one that costs much
            gain += chance
            net = gain - speed * (seconds[count] - seconds[0])
            if net > best:
                best, worth = net, count
        return worth


def follow(tree: DraftTree, tokens: list[int]) -> tuple[int, int]:
    """The last node on the path of `tokens` from the root, and how many of them it has."""
    node = shared = 0
    while shared < len(tokens) and (child := tree.child(node, tokens[shared])) is not None:
        node, shared = child, shared + 1
    return node, shared
