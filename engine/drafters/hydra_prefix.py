"""The layer before the heads of Hydra++: it reads the target's hidden states of the whole text."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.drafters.head_layer import HeadLayer, HeadShape
from engine.layer import Cache, rms_norm


class Prefix:
    """A Llama layer between two norms, with its own KV cache.

    It takes its own of `tensors` over, which start with `prefix`.
    """

    def __init__(self, shape: HeadShape, tensors: dict[str, Tensor], prefix: str) -> None:
        self.input_norm = tensors.pop(f"{prefix}.layers.0.input_layernorm.weight")  # [H]
        self.norm = tensors.pop(f"{prefix}.norm.weight")  # [H]
        self.eps = shape.rms_norm_eps
        self.layer = HeadLayer(shape, tensors, f"{prefix}.layers.0")

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.norm.device

    def fuse(self, features: Tensor) -> Tensor:
        """What `forward` reads, [m, H], of the target's features: they themselves."""
        return features

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, cache: Cache, visible: Tensor
    ) -> Tensor:
        """What the heads read in place of `features`, [m, H]; the tokens after them do not matter."""
        read = rms_norm(features, self.input_norm, self.eps)
        hidden = self.layer.forward(read, features, positions, cache, visible)
        return rms_norm(hidden, self.norm, self.eps)
