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
from engine.drafters.head_layer import HeadLayer
from engine.drafters.levels import AtTheEnd, Levels
from engine.drafters.ranking import Ranking
from engine.drafters.rerank import rerank
from engine.drafters.sizing import LONGEST_REST, TreeSizing
from engine.drafters.static_drafting import Pairs, StaticDrafting
from engine.errors import SettingsError
from engine.layer import Cache
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

    @property
    def layer(self) -> HeadLayer:
        """Its decoder layer, which has the cache."""

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, cache: Cache, visible: Tensor
    ) -> Tensor:
        """[m, H] from m pairs of token and feature, which is fused or an earlier output."""

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, D] fp32 from outputs [m, H]."""


class Eagle2:
    """Expands the `beam` best nodes of each of `depth` levels, then keeps the `nodes` best of all drawn.

    With a `calibration`, values are chances that acceptance has confirmed. With a `sizing`, depth and nodes
    are chosen round by round, up to those given; `static` shapes, the default on CUDA, draw all of the depth.
    """

    def __init__(  # noqa: PLR0913 - the paper's three numbers, and what we add
        self,
        head: DraftHead,
        nodes: int,
        depth: int,
        beam: int,
        calibration: Calibration | None = None,
        sizing: TreeSizing | None = None,
        *,
        static: bool | None = None,
    ) -> None:
        check_tree_size(nodes, depth, beam, head.vocabulary)
        self.head = head
        self.taps = head.taps
        self.nodes = nodes
        self.depth = depth
        self.beam = beam
        self.calibration = calibration
        self.sizing = sizing
        is_static = head.device.type == "cuda" if static is None else static
        self._static = StaticDrafting(head, nodes, depth, beam) if is_static else None
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
        missing = len(tokens) - 1 - self.length
        later = LONGEST_REST if resting else self._static.width if self._static else 0
        if missing > later:  # a prompt is read at once
            self._catch_up(tokens)

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """Grow, then rerank; the root alone where plain decoding is faster."""
        if self.sizing:
            self.sizing.decoding(sampler.greedy)
            if self.sizing.is_resting:
                root = DraftTree.chain(tokens[-1:], self.head.device)
                return replace(root, sizing=self.sizing.rest())
        ranking = Ranking(self.head, sampler, len(tokens), self.calibration)
        if self._static:
            tree = self._draft(self._static, tokens, ranking)
        else:
            self._catch_up(tokens)
            growth, sizing = self._grow(ranking)
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
            causal = torch.arange(end, device=device) <= positions[:, None]  # [m, end]
            ids = torch.tensor(tokens[start + 1 : end + 1], device=device)
            fused = self.head.fuse(self._features[start:end].to(device))
            cache = self.head.layer.at(start, end - start)
            hidden = self.head.forward(ids, fused, positions, cache, causal)
            self._hidden, self.length = hidden[-1:], end
            self._seconds = time.perf_counter() - began

    def _draft(self, static: StaticDrafting, tokens: list[int], ranking: Ranking) -> DraftTree:
        """All in one piece; then, where trees are sized, as many of its nodes as pay."""
        began = time.perf_counter()
        if len(tokens) - 1 - self.length > static.width:
            self._catch_up(tokens)
        assert self._features is not None
        start = min(self.length, len(tokens) - 2)  # the root's output is needed again
        pairs = Pairs(tokens[start + 1 :], self._features[start : len(tokens) - 1], start)
        tree, self._hidden = static.draft(pairs, ranking, self.calibration)
        self.length = len(tokens) - 1
        if not self.sizing:
            return tree
        assert tree.values is not None
        best = tree.values[1:].sort(descending=True).values
        sizing = self.sizing.begin(best, time.perf_counter() - began, self.depth).choose()
        return replace(static.cut(tree, sizing.nodes), sizing=sizing)

    def _grow(self, ranking: Ranking) -> tuple[Growth, Sizing | None]:
        """Draw level by level; where trees are sized, as far as that is worth it."""
        assert self._hidden is not None
        began = time.perf_counter()
        places = AtTheEnd(self.head.layer, self.length)
        levels = Levels(
            self.head, self._hidden, self.beam, lambda x, depth: ranking.best(x, depth, self.beam), places
        )
        seconds = self._seconds + time.perf_counter() - began
        growing = self.sizing.begin(levels.values, seconds) if self.sizing else None
        for _ in range(self.depth - 1):
            if growing and not growing.is_level_worth_it(levels.values):
                break
            drawn = levels.draw()
            if growing:
                growing.drew(*drawn)
        return levels.growth(), growing.choose() if growing else None


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
