"""EAGLE-2: a tree grown where the draft head is confident (Li et al., EMNLP 2024).

A node's *value* is the product of confidences along its path, kept as a log in fp32: the drafter's estimate
of the chance that the node is accepted. EAGLE-3 grows the same tree with another head.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from engine.errors import SettingsError
from engine.sampling import Sampler
from engine.tree import DraftTree, Growth

OBSERVE_CHUNK = 512


class DraftHead(Protocol):
    """A network that continues features: EAGLE-1/2's or EAGLE-3's."""

    taps: tuple[int, ...]
    device: torch.device

    @property
    def vocabulary(self) -> int:
        """Tokens it can propose, D."""

    def fuse(self, features: Tensor) -> Tensor:
        """The target's features [m, F] as `forward` reads them, [m, H]."""

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, start: int, mask: Tensor
    ) -> Tensor:
        """[m, H] from m pairs of token and feature, which is fused or an earlier output."""

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """[m, D] fp32 from outputs [m, H]."""

    def token_ids(self, ids: Tensor) -> Tensor:
        """Draft ids to target ids."""


class Eagle2:
    """Expands the `beam` best nodes of each of `depth` levels, then keeps the `nodes` best of all drawn."""

    def __init__(self, head: DraftHead, nodes: int, depth: int, beam: int) -> None:
        check_tree_size(nodes, depth, beam, head.vocabulary)
        self.head = head
        self.taps = head.taps
        self.nodes = nodes
        self.depth = depth
        self.beam = beam
        self.length = 0  # pairs in the head's cache, all from true features
        self._hidden: Tensor | None = None  # [1, H], output at the last pair: the root's

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Run the head over the pairs it has not seen, with true features.

        What was drafted there is overwritten.
        """
        assert features is not None
        device = self.head.device
        while (start := self.length) < len(tokens) - 1:
            end = min(start + OBSERVE_CHUNK, len(tokens) - 1)
            positions = torch.arange(start, end, device=device)
            mask = torch.arange(end, device=device) <= positions[:, None]  # [m, end] causal
            ids = torch.tensor(tokens[start + 1 : end + 1], device=device)
            fused = self.head.fuse(features[start:end].to(device))
            hidden = self.head.forward(ids, fused, positions, start, mask)
            self._hidden, self.length = hidden[-1:], end

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """Grow, then rerank."""
        return rerank(self._grow(), tokens[-1], self.nodes)

    def rewind(self, length: int) -> None:
        """Keep the first `length` pairs."""
        self.length = min(self.length, length)

    def _grow(self) -> Growth:
        """Draw `beam` candidates below the root, then level by level `beam` below each of the `beam` best."""
        assert self._hidden is not None
        k, device = self.beam, self.head.device
        values, ids = self.head.log_probabilities(self._hidden)[0].topk(k)  # [K]
        tokens = self.head.token_ids(ids)
        levels = [(tokens, torch.full_like(tokens, -1), values)]
        expanded: list[Tensor] = []  # pool indices
        frontier = torch.arange(k, device=device)  # [K] pool indices of the nodes to expand
        features = self._hidden.expand(k, -1)  # [K, H] the parents' outputs
        visible = torch.ones(k, self.length, dtype=torch.bool, device=device)  # [K, cached rows]
        for level in range(self.depth - 1):
            start = self.length + level * k
            visible = torch.cat((visible, torch.eye(k, dtype=torch.bool, device=device)), dim=1)
            positions = torch.full((k,), self.length + level, device=device)
            hidden = self.head.forward(tokens, features, positions, start, visible)
            scores, ids = self.head.log_probabilities(hidden).topk(k)  # [K, K]
            candidates = (values[:, None] + scores).flatten()  # [K * K]
            children = self.head.token_ids(ids).flatten()
            levels.append((children, frontier.repeat_interleave(k), candidates))
            expanded.append(frontier)
            # The K best of the new level are expanded next; a stable sort keeps ties in order of creation.
            best = candidates.sort(descending=True, stable=True).indices[:k]
            parents = best // k
            tokens, values, features, visible = (
                children[best],
                candidates[best],
                hidden[parents],
                visible[parents],
            )
            frontier = k + level * k * k + best
        return _pool(levels, expanded)


def rerank(growth: Growth, root: int, nodes: int) -> DraftTree:
    """The `nodes` best candidates by value, below the root.

    Ties go to the earlier one. A child is never worth more than its parent and is created later, so the
    winners are closed under ancestors whatever the numbers; in order of creation, parents precede children.
    """
    best = growth.values.sort(descending=True, stable=True).indices[:nodes].sort().values  # [nodes]
    growth.kept[best] = True
    new_index = torch.zeros(
        len(growth.tokens) + 1, dtype=torch.long, device=best.device
    )  # last: parent -1, the root
    new_index[best] = torch.arange(1, nodes + 1, device=best.device)
    zero = best.new_zeros(1)
    return DraftTree(
        tokens=torch.cat((zero + root, growth.tokens[best])),
        parents=torch.cat((zero - 1, new_index[growth.parents[best]])),
        values=torch.cat((growth.values.new_zeros(1), growth.values[best])),
        growth=growth,
    )


def check_tree_size(nodes: int, depth: int, beam: int, vocabulary: int | None = None) -> None:
    """`nodes`, `depth` and `beam` must fit each other and, once it is known, the draft vocabulary."""
    if min(nodes, depth, beam) < 1:
        raise SettingsError(f"nodes, depth and beam must be 1 or larger, not {nodes}, {depth} and {beam}")
    if vocabulary is not None and beam > vocabulary:
        raise SettingsError(f"beam {beam} is larger than the draft vocabulary of {vocabulary} tokens")
    drawn = beam + (depth - 1) * beam**2
    if nodes > drawn:
        raise SettingsError(
            f"nodes {nodes} is more than the {drawn} candidates that depth {depth} and beam {beam} draw "
            "(beam + (depth - 1) * beam²): lower nodes, or raise depth or beam"
        )


def _pool(levels: list[tuple[Tensor, Tensor, Tensor]], expanded: list[Tensor]) -> Growth:
    tokens, parents, values = (torch.cat(column) for column in zip(*levels, strict=True))
    was_expanded = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    if expanded:
        was_expanded[torch.cat(expanded)] = True
    return Growth(tokens, parents, values, was_expanded, kept=torch.zeros_like(was_expanded))
