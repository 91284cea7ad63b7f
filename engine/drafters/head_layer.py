"""The decoder layer that every EAGLE head consists of: attention over its own KV cache, then a gated MLP."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.layer import Cache, Layer, LayerShape, Mlp, RotaryTable, Slab, rms_norm
from engine.linear import Linear, fused


@dataclass(frozen=True)
class RopeScaling:
    """Slower rotation, for longer texts than were trained on first.

    With `original`, the length of those, frequencies that turn at least `high` times in it are left alone and
    those that turn less than `low` times are slowed in full (Llama 3.1); without, all are.
    """

    factor: float
    original: float | None = None
    low: float = 1.0
    high: float = 4.0


@dataclass(frozen=True)
class HeadShape(LayerShape):
    """What the tensors do not tell about a head."""

    rope_theta: float
    rope_scaling: RopeScaling | None = None
    window: int | None = None  # positions back from its own that a pair sees, itself included; None for all


class HeadLayer:
    """A Llama layer after its input norm, which is where the kinds of heads differ.

    It takes its own of `tensors`, which are the whole head's under their published names: those that start
    with `prefix`. q, k and v read inputs of any width, and biases are used where present.
    """

    def __init__(self, shape: HeadShape, tensors: dict[str, Tensor], prefix: str) -> None:
        self.norm = tensors.pop(f"{prefix}.post_attention_layernorm.weight")  # [H]
        self.eps = shape.rms_norm_eps
        self.layer = Layer(
            shape,
            qkv=_fuse(tensors, f"{prefix}.self_attn", ("q_proj", "k_proj", "v_proj")),
            output=_fuse(tensors, f"{prefix}.self_attn", ("o_proj",)),
            mlp=Mlp(
                gate_up=_fuse(tensors, f"{prefix}.mlp", ("gate_proj", "up_proj")),
                down=_fuse(tensors, f"{prefix}.mlp", ("down_proj",)),
            ),
            q_norm=tensors.pop(f"{prefix}.self_attn.q_norm.weight", None),
            k_norm=tensors.pop(f"{prefix}.self_attn.k_norm.weight", None),
        )
        self.window = shape.window
        self._seen, self._hidden = self.norm.new_zeros(()), self.norm.new_full((), -torch.inf)
        self.slab = Slab(1, shape, self.norm)
        self.rotary = RotaryTable(rotary_frequencies(shape, self.norm.device), self.norm)

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.norm.device

    def at(self, start: int, rows: int) -> Slab:
        """The cache with room for so many rows from `start` on, where the next forward writes."""
        self.slab.length = start
        self.slab.reserve(rows)
        self.rotary.reserve(start + rows)
        return self.slab

    def forward(
        self, x: Tensor, residual: Tensor, positions: Tensor, cache: Cache, visible: Tensor
    ) -> Tensor:
        """[m, H] from what attention reads, `x` [m, inputs], and what it is added to, `residual` [m, H].

        `positions` [m] rotary positions; `visible` [m, T] bool: which of the cache's rows attend to which.
        """
        if self.window is not None:  # what is drafted lies behind the text, and so always in the window
            rows = torch.arange(visible.shape[1], device=visible.device)
            visible = visible & (rows > positions[:, None] - self.window)
        bias = torch.where(visible, self._seen, self._hidden)
        cos, sin = self.rotary.rows(positions)
        attended = self.layer.attention(x, cos, sin, cache, 0, self.layer.group_bias(bias))
        hidden = residual + attended
        return hidden + self.layer.mlp(rms_norm(hidden, self.norm, self.eps))


def rotary_frequencies(shape: HeadShape, device: torch.device) -> Tensor:
    """[head_dim / 2] radians a position."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float32, device=device) / shape.head_dim
    frequencies, scaling = 1.0 / shape.rope_theta**exponents, shape.rope_scaling
    if scaling is None:
        return frequencies
    if scaling.original is None:
        return frequencies / scaling.factor
    turns = scaling.original * frequencies / (2 * math.pi)
    kept = ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1)  # share that is not slowed
    return frequencies * (kept + (1 - kept) / scaling.factor)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding in the half-split layout; `x` [..., heads, m, head_dim]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def _fuse(tensors: dict[str, Tensor], prefix: str, names: tuple[str, ...]) -> Linear:
    """One product for all of `names`, whose tensors are taken out of `tensors`."""
    weights = [tensors.pop(f"{prefix}.{name}.weight") for name in names]
    biases = [tensors.pop(f"{prefix}.{name}.bias", None) for name in names]
    return fused(weights, biases)
