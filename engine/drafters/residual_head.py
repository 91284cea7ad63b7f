"""A draft head without attention: residual blocks over what it reads, then an LM head (Medusa, Hydra)."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

from engine.drafters.draft_vocabulary import DraftVocabulary
from engine.linear import Linear


class Block:
    """x + SiLU(W x + b), or R x + c + SiLU(W x + b) where it reads more than it gives.

    It takes its own of `tensors`, those that start with `prefix`.
    """

    def __init__(self, tensors: dict[str, Tensor], prefix: str) -> None:
        self.linear = Linear(tensors.pop(f"{prefix}.linear.weight"), tensors.pop(f"{prefix}.linear.bias"))
        weight = tensors.pop(f"{prefix}.res_connection.weight", None)
        bias = tensors.pop(f"{prefix}.res_connection.bias", None)
        self.residual = None if weight is None else Linear(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """[m, H] from [m, inputs]."""
        return (x if self.residual is None else self.residual(x)) + F.silu(self.linear(x))


class ResidualHead:
    """The head of one depth. Its LM head may be the target's, after a square layer of its own."""

    def __init__(
        self, blocks: list[Block], to_lm_head: Linear | None, words: DraftVocabulary, target_vocabulary: int
    ) -> None:
        self.blocks = blocks
        self.to_lm_head = to_lm_head
        self.words = words
        self.target_vocabulary = target_vocabulary

    @property
    def draft_vocab(self) -> Tensor | None:
        """[D] target ids of what it can propose now."""
        return self.words.ids

    def output(self, read: Tensor) -> Tensor:
        """What the LM head takes, [m, H], from [m, inputs]."""
        for block in self.blocks:
            read = block(read)
        return read if self.to_lm_head is None else self.to_lm_head(read)

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, D] fp32 from what the blocks read, [m, inputs]."""
        return self.words.logits(self.output(hidden))
