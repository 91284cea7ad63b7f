"""Hydra: Medusa's heads made to depend on one another (Ankner et al., 2024).

The head of depth d reads the target's hidden state and the embeddings of the d tokens before its own, the
root and those drafted along the path, so that each node has candidates of its own. In Hydra++ a layer over
the whole text stands between the hidden state and the heads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.drafters.following import Following
from engine.drafters.hydra_prefix import Prefix
from engine.drafters.medusa import MEDUSA_TREE
from engine.drafters.paths import Drawing, Path, check_paths, levels_of, parents_of
from engine.drafters.ranking import Ranking
from engine.drafters.residual_head import ResidualHead
from engine.sampling import Sampler
from engine.tree import DraftTree


class HydraHeads:
    """The heads, the first for depth 1; the embedding is the target's, shared and never copied."""

    taps: tuple[int, ...] = (-1,)
    """The target's final normed state."""

    def __init__(
        self, heads: list[ResidualHead], embedding: nn.Embedding, device: torch.device, prefix: Prefix | None
    ) -> None:
        self.heads = heads
        self.words = heads[0].words
        self.embedding = embedding
        self.device = device
        self.prefix = prefix

    @property
    def vocabulary(self) -> int:
        """Tokens they can propose, whatever the text is."""
        return self.words.size

    def extend(self, read: Tensor, tokens: Tensor) -> Tensor:
        """What the heads of the next depth read, [m, inputs + H]: what was read before, and m tokens."""
        return torch.cat((read, self.embedding(tokens).to(read.dtype)), dim=-1)


class Hydra:
    """Draws the tree of `paths` level by level."""

    def __init__(self, head: HydraHeads, paths: tuple[Path, ...] = MEDUSA_TREE) -> None:
        self.head = head
        self.taps = head.taps
        self.paths = check_paths(paths, head.vocabulary, len(head.heads))
        self._parents = parents_of(self.paths, head.device)
        self._levels = levels_of(self.paths, head.device)
        self._following = Following(head.prefix) if head.prefix else None
        self._feature: Tensor | None = None  # [1, H], the target's of the token before the root

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Keep the last feature; the layer before the heads reads all that it has not seen."""
        self._feature = None if features is None else features[-1:]
        if self._following:
            self._following.features = features
            self._following.catch_up(tokens)

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """The tree below the last token."""
        assert self._feature is not None
        self.head.words.read(tokens)
        read = self._following.root(tokens) if self._following else self._feature.to(self.head.device)
        drawing = Drawing(tokens[-1], self.head.device)
        for depth, (head, level) in enumerate(zip(self.head.heads, self._levels, strict=False), start=1):
            read = self.head.extend(read.index_select(0, level.outer), drawing.expand(level))
            drawing.add(level, *Ranking(head, sampler, len(tokens)).best(read, depth, level.width))
        return drawing.tree(self._parents)

    def rewind(self, length: int) -> None:
        """Keep what the layer has of the first `length` tokens; the feature is of another text."""
        self._feature = None
        self.head.words.rewind(length)
        if self._following:
            self._following.rewind(length)
