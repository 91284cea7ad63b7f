"""From confidence to chance: what became of a head's nodes corrects what it says of the next, by depth."""

from __future__ import annotations

import math

from engine.tree import DraftTree

PRIOR = 4.0  # accepted nodes that must be seen before they outweigh the head's own word
MEMORY = 0.99  # of what was seen, from round to round


class Calibration:
    """A factor on the confidences of each depth: nodes accepted, by nodes expected, over the last rounds.

    Only *tested* nodes count, those whose parent is the root or was accepted; of the others nobody knows.
    Sampling and greedy decoding have factors of their own: the same node is likelier to be an argmax.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._seen: dict[bool, tuple[list[float], list[float]]] = {}

    def log_factor(self, depth: int, greedy: bool) -> float:
        """Log of the factor on nodes at `depth`, 1 or more."""
        expected, accepted = self._sums(greedy)
        return math.log((accepted[depth] + PRIOR) / (expected[depth] + PRIOR))

    def learn(self, tree: DraftTree, path: list[int], greedy: bool) -> None:
        """`tree` was proposed with the present factors, and of its nodes those of `path` were accepted."""
        assert tree.values is not None
        expected, accepted = self._sums(greedy)
        factors = [0.0, *(self.log_factor(depth, greedy) for depth in range(1, self._depth + 1))]
        for sums in (expected, accepted):
            sums[:] = [MEMORY * value for value in sums]
        values, parents, on_path = tree.values.tolist(), tree.host.parents, set(path)
        for node, depth in enumerate(tree.depths):
            if node and parents[node] in on_path:
                expected[depth] += math.exp(values[node] - values[parents[node]] - factors[depth])
                accepted[depth] += node in on_path

    def _sums(self, greedy: bool) -> tuple[list[float], list[float]]:
        """Expected without a factor, and accepted, by depth."""
        if greedy not in self._seen:
            self._seen[greedy] = ([0.0] * (self._depth + 1), [0.0] * (self._depth + 1))
        return self._seen[greedy]
