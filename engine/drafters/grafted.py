"""EAGLE-2 with prompt lookup: what followed the current n-gram before hangs in the tree as one more branch.

A head knows what is likely, a lookup what was there: texts that copy, a summary's or a program's, run long
along the second (suffix decoding has the idea for whole drafts; Oliaro et al., 2024). How often the text goes
on as looked up is counted by the length of the match, in every round, drafted or not; a node is added where
that chance is worth its row.
"""

from __future__ import annotations

import math

from torch import Tensor

from engine.costs import Costs
from engine.drafters.chances import Chances, Match, worth
from engine.drafters.eagle2 import Eagle2
from engine.drafters.lookup import PromptLookup
from engine.sampling import Sampler
from engine.tree import DraftTree


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
        if self._proposed:
            grafted, own = self._proposed
            if len(logits) < len(grafted):  # cut before the forward, maybe to as many nodes as EAGLE-2 had
                own = 0
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
        new = match.tokens[shared:]
        if self.costs:
            sizing = tree.sizing
            speed = sizing.expected / sizing.seconds if sizing else 1 / self.costs.verify(1)
            new = new[: worth(chances, self.costs, len(tree), speed)]
        if not new:
            return tree
        above = tree.values[node].item() if tree.values is not None else 0.0
        return tree.with_branch(node, new, [min(above, math.log(chance)) for chance in chances[: len(new)]])


def follow(tree: DraftTree, tokens: list[int]) -> tuple[int, int]:
    """The last node on the path of `tokens` from the root, and how many of them it has."""
    node = shared = 0
    while shared < len(tokens) and (child := tree.child(node, tokens[shared])) is not None:
        node, shared = child, shared + 1
    return node, shared
