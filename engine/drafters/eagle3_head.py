"""The EAGLE-3 draft network: one Llama layer over several fused layers of the target (Li et al., 2025).

Pairs, positions and trees are those of EAGLE-2. What differs: the target's features are residual streams
taken before some of its layers, joined and fused to the head's width, while the head's own output goes back
in as it is; attention reads the normed embedding beside the normed hidden state; and the head has a final
norm, an LM head and a vocabulary of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.drafters.draft_vocabulary import DraftVocabulary
from engine.drafters.head_layer import HeadLayer, HeadShape
from engine.layer import Cache, rms_norm
from engine.linear import Linear


@dataclass(frozen=True)
class Norms:
    """What later trainers norm that the paper's heads do not."""

    residual: bool = False  # attention is added to the normed hidden state, not to what went in
    output: bool = False  # the head's own output goes back in normed


class Eagle3Head:
    """The network with its own KV cache and LM head.

    It takes `tensors`, which carry their published names, over. `embedding` [V, H] is the target's, or the
    head's own where their widths differ. `draft_vocab` [D] holds the target id of each row of the LM head;
    None where they are the same. `taps` say which hidden states of the target were fused, low to high. Those
    are normed before, joined or one by one, where there are tensors for it.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of, and how
        self,
        shape: HeadShape,
        tensors: dict[str, Tensor],
        embedding: nn.Embedding,
        draft_vocab: Tensor | None,
        taps: tuple[int, ...],
        target_vocabulary: int,
        norms: Norms = Norms(),
    ) -> None:
        self.eps = shape.rms_norm_eps
        self.embedding = embedding
        self.target_vocabulary = target_vocabulary
        self.taps = taps
        self.norms = norms
        self.layer = HeadLayer(shape, tensors, "midlayer")
        self.embedding_norm = tensors.pop("midlayer.input_layernorm.weight")  # [H], as the next two
        self.hidden_norm = tensors.pop("midlayer.hidden_norm.weight")
        self.output_norm = tensors.pop("norm.weight")
        self.joined_norm = tensors.pop("input_norm.weight", None)  # [F]
        tap_norms = (tensors.pop(f"fc_norm.{tap}.weight", None) for tap in range(len(taps)))
        self.tap_norms = [norm for norm in tap_norms if norm is not None]  # F / taps each, or none at all
        fc = tensors.pop("fc.weight")
        self.device, self.dtype = fc.device, fc.dtype
        self.fc = Linear(fc)
        self.words = DraftVocabulary(Linear(tensors.pop("lm_head.weight")), draft_vocab)

    @property
    def vocabulary(self) -> int:
        """Tokens it can propose, whatever the text is."""
        return self.words.size

    @property
    def draft_vocab(self) -> Tensor | None:
        """[D] target ids of what it can propose now."""
        return self.words.ids

    def fuse(self, features: Tensor) -> Tensor:
        """What `forward` reads, [m, H], of the target's features [m, F], one hidden state per tap."""
        features = features.to(self.dtype)
        if self.joined_norm is not None:
            features = rms_norm(features, self.joined_norm, self.eps)
        if self.tap_norms:
            states = zip(features.chunk(len(self.taps), dim=-1), self.tap_norms, strict=True)
            features = torch.cat([rms_norm(state, norm, self.eps) for state, norm in states], dim=-1)
        return self.fc(features)

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, cache: Cache, visible: Tensor
    ) -> Tensor:
        """One pass over m pairs, [m, H]; their keys and values go to the cache.

        `tokens` [m], `features` [m, H] fused or drafted, `positions` [m] rotary positions; `visible` [m, T]
        bool: which of the cache's rows they attend to. The output is the next feature.
        """
        embedded = rms_norm(self.embedding(tokens).to(self.dtype), self.embedding_norm, self.eps)
        normed = rms_norm(features, self.hidden_norm, self.eps)
        pairs = torch.cat((embedded, normed), dim=-1)  # [m, 2H]
        residual = normed if self.norms.residual else features
        hidden = self.layer.forward(pairs, residual, positions, cache, visible)
        return rms_norm(hidden, self.output_norm, self.eps) if self.norms.output else hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, D] fp32 scores of the next token, from [m, H]."""
        normed = hidden if self.norms.output else rms_norm(hidden, self.output_norm, self.eps)
        return self.words.logits(normed)
