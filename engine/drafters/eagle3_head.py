"""The EAGLE-3 draft network: one Llama layer over several fused layers of the target (Li et al., 2025).

Pairs, positions and trees are those of EAGLE-2. What differs: the target's features are residual streams
taken before some of its layers, joined and fused to the head's width, while the head's own output goes back
in as it is; attention reads the normed embedding beside the normed hidden state; and the head has a final
norm, an LM head and a vocabulary of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.drafters.head_layer import HeadLayer, HeadShape
from engine.layer import Cache, rms_norm
from engine.linear import Linear


class Eagle3Head:
    """The network with its own KV cache and LM head.

    It takes `tensors`, which carry their published names, over. `embedding` [V, H] is the target's, or the
    head's own where their widths differ. `draft_vocab` [D] holds the target id of each row of the LM head;
    None where they are the same. `taps` say which hidden states of the target were fused, low to high.
    """

    def __init__(
        self,
        shape: HeadShape,
        tensors: dict[str, Tensor],
        embedding: nn.Embedding,
        draft_vocab: Tensor | None,
        taps: tuple[int, ...],
        target_vocabulary: int,
    ) -> None:
        self.eps = shape.rms_norm_eps
        self.embedding = embedding
        self.draft_vocab = draft_vocab
        self.target_vocabulary = target_vocabulary
        self.taps = taps
        self.layer = HeadLayer(shape, tensors, "midlayer")
        self.embedding_norm = tensors.pop("midlayer.input_layernorm.weight")  # [H], as the next two
        self.hidden_norm = tensors.pop("midlayer.hidden_norm.weight")
        self.output_norm = tensors.pop("norm.weight")
        fc = tensors.pop("fc.weight")
        self.device, self.dtype, self.hidden_size = fc.device, fc.dtype, fc.shape[0]
        self.fc = Linear(fc)
        self.lm_head = Linear(tensors.pop("lm_head.weight"))

    @property
    def vocabulary(self) -> int:
        """Tokens it can propose."""
        return self.lm_head.out_features

    def fuse(self, features: Tensor) -> Tensor:
        """What `forward` reads, [m, H], of the target's features [m, F], one hidden state per tap."""
        return self.fc(features.to(self.dtype))

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, cache: Cache, visible: Tensor
    ) -> Tensor:
        """One pass over m pairs, [m, H]; their keys and values go to the cache.

        `tokens` [m], `features` [m, H] fused or drafted, `positions` [m] rotary positions; `visible` [m, T]
        bool: which of the cache's rows they attend to. The output is not normed: it is the next feature.
        """
        embedded = rms_norm(self.embedding(tokens).to(self.dtype), self.embedding_norm, self.eps)
        pairs = torch.cat((embedded, rms_norm(features, self.hidden_norm, self.eps)), dim=-1)  # [m, 2H]
        return self.layer.forward(pairs, features, positions, cache, visible)

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, D] fp32 scores of the next token, from [m, H]."""
        return self.lm_head(rms_norm(hidden, self.output_norm, self.eps)).float()
