"""EAGLE-2's rerank: of all candidates the best by value become the draft tree."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.tree import DraftTree, Growth, Sizing


def best_of(values: Tensor, count: int) -> Tensor:
    """[count], the places of the best values in order of creation; ties go to the earlier one.

    A child is never worth more than its parent and is created later, so the winners are closed under
    ancestors whatever the numbers; in order of creation, parents precede children.
    """
    return values.sort(descending=True, stable=True).indices[:count].sort().values


def below_root(growth: Growth, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens and parents of the `kept` candidates [n] as nodes of a tree, whose root is node 0."""
    size = len(growth.tokens)
    nodes = torch.zeros(size + 1, dtype=torch.long, device=kept.device)  # the last: parent -1, the root
    nodes.index_copy_(0, kept, torch.arange(1, len(kept) + 1, device=kept.device))
    return growth.tokens[kept], nodes[growth.parents[kept]]


def rerank(growth: Growth, root: int, nodes: int, sizing: Sizing | None = None) -> DraftTree:
    """The `nodes` best candidates below the root."""
    return make_tree(growth, root, best_of(growth.values, nodes), sizing)


def make_tree(growth: Growth, root: int, kept: Tensor, sizing: Sizing | None = None) -> DraftTree:
    """The `kept` candidates [n], in order of creation, below the root."""
    growth.kept.index_fill_(0, kept, True)
    tokens, parents = below_root(growth, kept)
    zero = kept.new_zeros(1)
    return DraftTree(
        tokens=torch.cat((zero + root, tokens)),
        parents=torch.cat((zero - 1, parents)),
        values=torch.cat((growth.values.new_zeros(1), growth.values[kept])),
        growth=growth,
        sizing=sizing,
    )
