"""EAGLE-2: a tree grown where the draft head is confident (Li et al., EMNLP 2024).

A node's *value* is the product of confidences along its path, kept as a log in fp32: the drafter's estimate
of the chance that the node is accepted. EAGLE-3 grows the same tree with another head.
"""

from __future__ import annotations

import time
from dataclasses import replace

from torch import Tensor

from engine.drafters.ablation import Ablation
from engine.drafters.calibration import Calibration
from engine.drafters.draft_head import DraftHead
from engine.drafters.following import Following
from engine.drafters.levels import AtTheEnd, Levels
from engine.drafters.ranking import Ranking
from engine.drafters.rerank import make_tree, rerank
from engine.drafters.sizing import LONGEST_REST, TreeSizing
from engine.drafters.static_drafting import Pairs, StaticDrafting
from engine.errors import SettingsError
from engine.sampling import Sampler
from engine.tree import DraftTree


class Eagle2:
    """Expands the `beam` best nodes of each of `depth` levels, then keeps the `nodes` best of all drawn.

    With a `calibration`, values are chances that acceptance has confirmed. With a `sizing`, depth and nodes
    are chosen round by round, up to those given; `static` shapes, the default on CUDA, draw all of the depth.
    An `ablation` has trees of the given size, by the head's own confidences.
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
        ablation: Ablation | None = None,
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
        self.ablation = ablation
        if ablation and (calibration or sizing or static):
            raise SettingsError("an ablation has neither calibration nor sizing nor static shapes")
        is_static = head.device.type == "cuda" and not ablation if static is None else static
        self._static = StaticDrafting(head, nodes, depth, beam) if is_static else None
        self._following = Following(head)
        self._proposed: tuple[DraftTree, bool] | None = None  # the last tree, and whether for greedy decoding

    @property
    def length(self) -> int:
        """Pairs in the head's cache, all from true features."""
        return self._following.length

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Learn from what was accepted, and run the head over the pairs it has not seen."""
        if self._proposed and len(logits) == len(self._proposed[0]):  # else it was cut before the forward
            self._learn(*self._proposed, path)
        self._proposed, self._following.features = None, features
        resting = self.sizing is not None and self.sizing.is_resting
        later = LONGEST_REST if resting else self._static.width if self._static else 0
        if self._following.missing(tokens) > later:  # a prompt is read at once
            self._following.catch_up(tokens)

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """Grow, then rerank; the root alone where plain decoding is faster."""
        if self.sizing:
            self.sizing.decoding(sampler.greedy)
            if self.sizing.is_resting:
                return replace(DraftTree.chain(tokens[-1:]), sizing=self.sizing.rest())
        self.head.words.read(tokens)
        ranking = Ranking(self.head, sampler, len(tokens), self.calibration)
        tree = self._draft(self._static, tokens, ranking) if self._static else self._grow(tokens, ranking)
        self._proposed = tree, sampler.greedy
        return tree

    def rewind(self, length: int) -> None:
        """Keep the first `length` pairs."""
        self._following.rewind(length)
        self.head.words.rewind(length)
        self._proposed = None

    def _learn(self, tree: DraftTree, greedy: bool, path: list[int]) -> None:
        if self.calibration:
            self.calibration.learn(tree, path, greedy)
        if self.sizing and tree.sizing:
            self.sizing.learn(tree.sizing, len(path))

    def _draft(self, static: StaticDrafting, tokens: list[int], ranking: Ranking) -> DraftTree:
        """All in one piece; then, where trees are sized, as many of its nodes as pay."""
        began, following = time.perf_counter(), self._following
        if following.missing(tokens) > static.width:
            following.catch_up(tokens)
        assert following.features is not None
        start = min(following.length, len(tokens) - 2)  # the root's output is needed again
        pairs = Pairs(tokens[start + 1 :], following.features[start : len(tokens) - 1], start)
        tree, following.hidden = static.draft(pairs, ranking, self.calibration)
        following.length = len(tokens) - 1
        if not self.sizing:
            return tree
        assert tree.values is not None
        best = tree.values[1:].sort(descending=True).values
        sizing = self.sizing.begin(best, time.perf_counter() - began, self.depth).choose()
        return replace(static.cut(tree, sizing.nodes), sizing=sizing)

    def _grow(self, tokens: list[int], ranking: Ranking) -> DraftTree:
        """Draw level by level, where trees are sized as far as that is worth it; then rerank."""
        root, began = self._following.root(tokens), time.perf_counter()
        places = AtTheEnd(self.head.layer, self.length)
        levels = Levels(
            self.head,
            root,
            self.beam,
            lambda outputs, depth: ranking.best(outputs, depth, self.beam),
            places,
            self.ablation,
        )
        seconds = self._following.seconds + time.perf_counter() - began
        growing = self.sizing.begin(levels.values, seconds) if self.sizing else None
        for _ in range(self.depth - 1):
            if growing and not growing.is_level_worth_it(levels.values):
                break
            drawn = levels.draw()
            if growing:
                growing.drew(*drawn)
        growth = levels.growth()
        if self.ablation:
            return make_tree(growth, tokens[-1], self.ablation.kept(growth, levels.chosen(), self.nodes))
        sizing = growing.choose() if growing else None
        return rerank(growth, tokens[-1], sizing.nodes if sizing else self.nodes, sizing)


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
