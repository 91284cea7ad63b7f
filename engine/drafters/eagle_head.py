"""The EAGLE-1/2 draft network: one Llama layer that continues the target's features (Li et al., 2024).

Pair i joins the embedding of token i + 1 with the feature of token i, at rotary position i; its output
estimates the feature of token i + 1, which the target's LM head turns into the distribution of token i + 2.
The layer has no input norm and nothing is normed before the LM head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.drafters.draft_vocabulary import proposing
from engine.drafters.head_layer import HeadLayer, HeadShape
from engine.layer import Cache
from engine.linear import Linear


class EagleHead:
    """The network with its own KV cache. Embedding and LM head are the target's, shared and never copied.

    It takes `tensors`, which carry their published names, over; biases are used where present. `draft_vocab`
    ([D] target ids) restricts the proposals to those rows of the LM head, which are gathered once, and to the
    tokens of the text.
    """

    taps: tuple[int, ...] = (-1,)
    """The target's final normed state."""

    def __init__(
        self,
        shape: HeadShape,
        tensors: dict[str, Tensor],
        embedding: nn.Embedding,
        lm_head: nn.Linear | Linear,
        draft_vocab: Tensor | None = None,
    ) -> None:
        self.embedding = embedding
        self.target_vocabulary = lm_head.out_features
        self.layer = HeadLayer(shape, tensors, "layers.0")
        self.words = proposing(lm_head, draft_vocab)
        fc = tensors.pop("fc.weight")
        self.device, self.dtype = fc.device, fc.dtype
        self.fc = Linear(fc, tensors.pop("fc.bias", None))

    @property
    def vocabulary(self) -> int:
        """Tokens it can propose, whatever the text is."""
        return self.words.size

    @property
    def draft_vocab(self) -> Tensor | None:
        """[D] target ids of what it can propose now."""
        return self.words.ids

    def fuse(self, features: Tensor) -> Tensor:
        """What `forward` reads, [m, H], of the target's features: they themselves."""
        return features

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, cache: Cache, visible: Tensor
    ) -> Tensor:
        """One pass over m pairs, [m, H]; their keys and values go to the cache.

        `tokens` [m], `features` [m, H], `positions` [m] rotary positions; `visible` [m, T] bool: which of
        the cache's rows they attend to.
        """
        pairs = torch.cat((self.embedding(tokens).to(self.dtype), features.to(self.dtype)), dim=-1)  # [m, 2H]
        hidden = self.fc(pairs)
        return self.layer.forward(hidden, hidden, positions, cache, visible)

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, D] fp32 scores of the next token, from [m, H]."""
        return self.words.logits(hidden)
