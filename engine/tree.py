"""The draft tree: what a drafter proposes and the target verifies in one forward."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from torch import Tensor


class Host(NamedTuple):
    """A tree's tokens and parents as Python lists, copied from the device together."""

    tokens: list[int]
    parents: list[int]


@dataclass(frozen=True)
class Growth:
    """Everything an EAGLE-2 drafter drew before the rerank, in order of creation (P candidates)."""

    tokens: Tensor  # [P] int64
    parents: Tensor  # [P] int64, index into this pool; -1 for children of the root
    values: Tensor  # [P] fp32, cumulative log-probability
    expanded: Tensor  # [P] bool, was given children
    kept: Tensor  # [P] bool, went to the target


@dataclass(frozen=True)
class Sizing:
    """How large a tree was made, and why: the best of all sizes, by what was expected before the forward."""

    nodes: int  # 0: plain decoding is faster
    levels: int
    expected: float  # tokens committed
    seconds: float  # of the round
    plain: float  # seconds of a plain round, which commits one
    why: Literal["best", "rest", "probe"] = (
        "best"  # rest: drafting was slower; probe: to see what plain takes
    )


@dataclass(frozen=True)
class DraftTree:
    """Structure of arrays over N nodes. Node 0 is the root: the last committed token, not drafted.

    `parents` is the single source of truth: `parents[0] == -1` and `parents[i] < i`; mask and depths derive
    from it.
    """

    tokens: Tensor  # [N] int64
    parents: Tensor  # [N] int64
    values: Tensor | None = None  # [N] fp32 cumulative draft log-probability, root 0; None: no probabilities
    growth: Growth | None = None  # for display
    sizing: Sizing | None = None  # where the size was chosen for this round
    looked_up: int = 0  # of its last nodes, how many were found in the text and not drafted

    def __post_init__(self) -> None:
        if self.tokens.shape != self.parents.shape or self.tokens.dim() != 1:
            raise ValueError(
                f"tokens {tuple(self.tokens.shape)} and parents {tuple(self.parents.shape)} differ"
            )

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def chain(cls, tokens: list[int]) -> DraftTree:
        """A tree without branches: `tokens[0]` is the root."""
        return cls(torch.tensor(tokens), torch.arange(-1, len(tokens) - 1))

    @cached_property
    def host(self) -> Host:
        """Tokens and parents as lists, brought from the device in one copy."""
        return Host(*torch.stack((self.tokens, self.parents)).tolist())

    @cached_property
    def depths(self) -> list[int]:
        """Edges between the root and each node, [N]."""
        depths = [0] * len(self)
        for node, parent in enumerate(self.host.parents[1:], start=1):
            depths[node] = depths[parent] + 1
        return depths

    @cached_property
    def mask(self) -> Tensor:
        """[N, N] bool on the host: node i attends to node j iff j is i or an ancestor of i."""
        itself = torch.eye(len(self), dtype=torch.bool)
        mask, parents = itself, torch.tensor(self.host.parents).clamp(min=0)
        for _ in range(max(self.depths)):  # each time, ancestors one edge further up
            mask = mask.index_select(0, parents) | itself
        return mask

    def child(self, node: int, token: int) -> int | None:
        """The child of `node` that carries `token`: the first one, where a drafter proposes it twice."""
        tokens, parents = self.host
        for i in range(node + 1, len(tokens)):
            if parents[i] == node and tokens[i] == token:
                return i
        return None

    def clip(self, depth: int) -> DraftTree:
        """The tree without the nodes deeper than `depth`, which could not be committed any more."""
        if max(self.depths) <= depth:
            return self
        tree = self.only([node for node, d in enumerate(self.depths) if d <= depth])
        return replace(tree, growth=None, sizing=None)

    def with_branch(self, node: int, tokens: list[int], values: list[float]) -> DraftTree:
        """The tree with a chain of `tokens` below `node`, of these values, that were found in the text."""
        first, device = len(self), self.tokens.device
        parents = torch.tensor([node, *range(first, first + len(tokens) - 1)], device=device)
        mine = self.values if self.values is not None else torch.zeros(first, device=device)
        return DraftTree(
            torch.cat((self.tokens, torch.tensor(tokens, device=device))),
            torch.cat((self.parents, parents)),
            torch.cat((mine, torch.tensor(values, device=device))),
            self.growth,
            self.sizing,
            self.looked_up + len(tokens),
        )

    def only(self, nodes: list[int]) -> DraftTree:
        """The tree of `nodes` alone, which are in order and closed under ancestors."""
        new_index = {old: new for new, old in enumerate(nodes)} | {-1: -1}
        index = torch.tensor(nodes, device=self.tokens.device)
        parents = torch.tensor([new_index[self.host.parents[i]] for i in nodes], device=self.tokens.device)
        values = None if self.values is None else self.values[index]
        looked_up = sum(node >= len(self) - self.looked_up for node in nodes)
        return DraftTree(self.tokens[index], parents, values, self.growth, self.sizing, looked_up)
