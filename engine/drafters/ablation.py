"""EAGLE-2 without one of its ideas: the paper's ablations (Li et al., EMNLP 2024, section 5.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.tree import Growth


@dataclass(frozen=True)
class Ablation:
    """What is left of EAGLE-2."""

    value: bool = True  # nodes are ranked by the confidences along their path; else by their own alone
    rerank: bool = True  # the best of all candidates are kept; else the nodes chosen for expansion

    def order(self, values: Tensor, scores: Tensor) -> Tensor:
        """What candidates with these log-values and log-confidences are ranked by, best first."""
        return values if self.value else scores

    def kept(self, growth: Growth, chosen: Tensor, nodes: int) -> Tensor:
        """The candidates that become the tree, at most `nodes`, in order of creation.

        `chosen` are those that each level was continued from, the last level's included. By confidence alone
        a child may be worth more than its parent, and then brings it, and all above, along.
        """
        parents, values = growth.parents.tolist(), growth.values
        above = torch.where(growth.parents < 0, 0, values[growth.parents])
        order = self.order(values, values - above).tolist()
        candidates = range(len(parents)) if self.rerank else chosen.tolist()
        kept: set[int] = set()
        for candidate in sorted(candidates, key=lambda node: (-order[node], node)):
            path, node = [], candidate
            while node >= 0 and node not in kept:
                path.append(node)
                node = parents[node]
            if len(kept) + len(path) <= nodes:
                kept.update(path)
        return torch.tensor(sorted(kept), device=values.device)
