"""What drafters need of a draft network."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from engine.drafters.draft_vocabulary import DraftVocabulary
from engine.drafters.head_layer import HeadLayer
from engine.layer import Cache


class Scoring(Protocol):
    """A network that says what comes next, in tokens."""

    target_vocabulary: int  # tokens the target knows

    @property
    def draft_vocab(self) -> Tensor | None:
        """[D] target ids of what it can propose now; None where its scores are of all the target's tokens."""

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, D] fp32 from outputs [m, H]."""


class Follows(Protocol):
    """A network with a layer that attends to the text so far."""

    @property
    def device(self) -> torch.device:
        """Where its weights are."""

    def fuse(self, features: Tensor) -> Tensor:
        """The target's features [m, F] as `forward` reads them, [m, H]."""

    @property
    def layer(self) -> HeadLayer:
        """Its decoder layer, which has the cache."""

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, cache: Cache, visible: Tensor
    ) -> Tensor:
        """[m, H] from m pairs of token and feature, which is fused or an earlier output."""


class DraftHead(Scoring, Follows, Protocol):
    """A network that continues features: EAGLE-1/2's or EAGLE-3's."""

    taps: tuple[int, ...]
    words: DraftVocabulary

    @property
    def vocabulary(self) -> int:
        """Tokens it can propose, whatever the text is."""
