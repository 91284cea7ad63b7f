"""EAGLE-2: a tree grown where the draft head is confident (Li et al., EMNLP 2024).

A node's *value* is the product of confidences along its path, kept as a log in fp32: the drafter's estimate
of the chance that the node is accepted. EAGLE-3 grows the same tree with another head.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from engine.drafters.calibration import Calibration
from engine.drafters.ranking import Ranking
from engine.drafters.sizing import LONGEST_REST, TreeSizing
from engine.errors import SettingsError
from engine.sampling import Sampler
from engine.tree import DraftTree, Growth, Sizing

OBSERVE_CHUNK = 512


class DraftHead(Protocol):
    """A network that continues features: EAGLE-1/2's or EAGLE-3's."""

    taps: tuple[int, ...]
    device: torch.device
    target_vocabulary: int  # tokens the target knows
    draft_vocab: Tensor | None  # [D] target ids of those it can propose; None where they are the same

    @property
    def vocabulary(self) -> int:
        """Tokens it can propose, D."""

    def fuse(self, features: Tensor) -> Tensor:
        """The target's features [m, F] as `forward` reads them, [m, H]."""

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, start: int, mask: Tensor
    ) -> Tensor:
        """[m, H] from m pairs of token and feature, which is fused or an earlier output."""

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, D] fp32 from outputs [m, H]."""


class Eagle2:
    """Expands the `beam` best nodes of each of `depth` levels, then keeps the `nodes` best of all drawn.

    With a `calibration`, values are chances that acceptance has confirmed. With a `sizing`, depth and nodes
    are chosen round by round, up to those given.
    """

    def __init__(
        self,
        head: DraftHead,
        nodes: int,
        depth: int,
        beam: int,
        calibration: Calibration | None = None,
        sizing: TreeSizing | None = None,
    ) -> None:
        check_tree_size(nodes, depth, beam, head.vocabulary)
        self.head = head
        self.taps = head.taps
        self.nodes = nodes
        self.depth = depth
        self.beam = beam
        self.calibration = calibration
        self.sizing = sizing
        self.length = 0  # pairs in the head's cache, all from true features
        self._features: Tensor | None = None  # [length of the text - 1, F], true ones
        self._hidden: Tensor | None = None  # [1, H], output at the last pair: the root's
        self._proposed: tuple[DraftTree, bool] | None = None  # the last tree, and whether for greedy decoding
        self._seconds = 0.0  # of the last catch-up

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Learn from what was accepted, and run the head over the pairs it has not seen."""
        assert features is not None
        if self._proposed and len(logits) == len(self._proposed[0]):  # else it was cut before the forward
            self._learn(*self._proposed, path)
        self._proposed, self._features = None, features
        resting = self.sizing is not None and self.sizing.is_resting
        if not resting or len(tokens) - self.length > LONGEST_REST:  # a prompt is read at once
            self._catch_up(tokens)

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """Grow, then rerank; the root alone where plain decoding is faster."""
        if self.sizing:
            self.sizing.decoding(sampler.greedy)
            if self.sizing.is_resting:
                root = DraftTree.chain(tokens[-1:], self.head.device)
                return replace(root, sizing=self.sizing.rest())
        self._catch_up(tokens)
        growth, sizing = self._grow(Ranking(self.head, sampler, len(tokens), self.calibration))
        tree = rerank(growth, tokens[-1], sizing.nodes if sizing else self.nodes, sizing)
        self._proposed = tree, sampler.greedy
        return tree

    def rewind(self, length: int) -> None:
        """Keep the first `length` pairs."""
        self.length = min(self.length, length)
        self._proposed = self._features = None

    def _learn(self, tree: DraftTree, greedy: bool, path: list[int]) -> None:
        if self.calibration:
            self.calibration.learn(tree, path, greedy)
        if self.sizing and tree.sizing:
            self.sizing.learn(tree.sizing, len(path))

    def _catch_up(self, tokens: list[int]) -> None:
        """Run the head over new pairs, with true features; what was drafted there is overwritten."""
        assert self._features is not None
        device, began = self.head.device, time.perf_counter()
        while (start := self.length) < len(tokens) - 1:
            end = min(start + OBSERVE_CHUNK, len(tokens) - 1)
            positions = torch.arange(start, end, device=device)
            mask = torch.arange(end, device=device) <= positions[:, None]  # [m, end] causal
            ids = torch.tensor(tokens[start + 1 : end + 1], device=device)
            fused = self.head.fuse(self._features[start:end].to(device))
            hidden = self.head.forward(ids, fused, positions, start, mask)
            self._hidden, self.length = hidden[-1:], end
            self._seconds = time.perf_counter() - began

    def _grow(self, ranking: Ranking) -> tuple[Growth, Sizing | None]:
        """Draw `beam` candidates below the root, then level by level `beam` below each of the `beam` best."""
        assert self._hidden is not None
        k, device, began = self.beam, self.head.device, time.perf_counter()
        values, tokens = (row[0] for row in ranking.best(self._hidden, 1, k))  # [K]
        levels = [(tokens, torch.full_like(tokens, -1), values)]
        expanded: list[Tensor] = []  # pool indices
        frontier = torch.arange(k, device=device)  # [K] pool indices of the nodes to expand
        features = self._hidden.expand(k, -1)  # [K, H] the parents' outputs
        visible = torch.ones(k, self.length, dtype=torch.bool, device=device)  # [K, cached rows]
        itself = torch.eye(k, dtype=torch.bool, device=device)
        seconds = self._seconds + time.perf_counter() - began
        growing = self.sizing.begin(values, seconds) if self.sizing else None
        for level in range(self.depth - 1):
            if growing and not growing.is_level_worth_it(values):
                break
            start = self.length + level * k
            visible = torch.cat((visible, itself), dim=1)
            positions = torch.full((k,), self.length + level, device=device)
            hidden = self.head.forward(tokens, features, positions, start, visible)
            scores, ids = ranking.best(hidden, level + 2, k)  # [K, K]
            candidates, children = (values[:, None] + scores).flatten(), ids.flatten()  # [K * K]
            levels.append((children, frontier.repeat_interleave(k), candidates))
            expanded.append(frontier)
            # The K best of the new level are expanded next; a stable sort keeps ties in order of creation.
            best = candidates.sort(descending=True, stable=True).indices[:k]
            parents = best // k
            tokens, values = (row.index_select(0, best) for row in (children, candidates))
            features, visible = (rows.index_select(0, parents) for rows in (hidden, visible))
            frontier = k + level * k * k + best
            if growing:
                growing.drew(scores, candidates)
        return _pool(levels, expanded), growing.choose() if growing else None


def rerank(growth: Growth, root: int, nodes: int, sizing: Sizing | None = None) -> DraftTree:
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
        sizing=sizing,
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
