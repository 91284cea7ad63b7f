"""The decoder layer that every EAGLE head consists of: attention over its own KV cache, then a gated MLP."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor


@dataclass(frozen=True)
class HeadShape:
    """What the tensors do not tell about a head."""

    heads: int
    kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float


class HeadLayer:
    """A Llama layer after its input norm, which is where the kinds of heads differ.

    `tensors` are the whole head's under their published names, the layer's start with `prefix`; q, k and v
    read inputs of any width, and biases are used where present.
    """

    def __init__(self, shape: HeadShape, tensors: dict[str, Tensor], prefix: str) -> None:
        self.shape = shape
        self.tensors = tensors
        self.prefix = prefix
        weight = tensors[f"{prefix}.self_attn.q_proj.weight"]
        device, self.dtype = weight.device, weight.dtype
        self.frequencies = rotary_frequencies(shape, device)
        self.keys = torch.empty(shape.kv_heads, 0, shape.head_dim, dtype=self.dtype, device=device)
        self.values = torch.empty_like(self.keys)

    def forward(self, x: Tensor, residual: Tensor, positions: Tensor, start: int, mask: Tensor) -> Tensor:
        """[m, H] from what attention reads, `x` [m, inputs], and what it is added to, `residual` [m, H].

        Keys and values are written at cache rows `start` … `start + m`. `positions` [m] rotary positions;
        `mask` [m, start + m] bool, True = attends.
        """
        hidden = residual + self._attention(x, positions, start, mask)
        normed = self.norm("post_attention_layernorm", hidden)
        gated = F.silu(self._linear("mlp.gate_proj", normed)) * self._linear("mlp.up_proj", normed)
        return hidden + self._linear("mlp.down_proj", gated)

    def norm(self, name: str, x: Tensor) -> Tensor:
        """RMSNorm by one of the layer's weights."""
        return rms_norm(x, self.tensors[f"{self.prefix}.{name}.weight"], self.shape.rms_norm_eps)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        name = f"{self.prefix}.{name}"
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def _attention(self, x: Tensor, positions: Tensor, start: int, mask: Tensor) -> Tensor:
        m, shape = len(x), self.shape
        group = shape.heads // shape.kv_heads
        q = self._heads("q_proj", x, shape.heads)
        k = self._heads("k_proj", x, shape.kv_heads)
        angles = torch.outer(positions.float(), self.frequencies).repeat(1, 2)  # [m, head_dim]
        cos, sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        self._reserve(start + m)
        self.keys[:, start : start + m] = rotate(k, cos, sin)
        self.values[:, start : start + m] = self._heads("v_proj", x, shape.kv_heads)
        # Query heads of a group share keys: folding them into the query axis avoids repeating the cache.
        out = F.scaled_dot_product_attention(
            rotate(q, cos, sin).reshape(1, shape.kv_heads, group * m, shape.head_dim),
            self.keys[None, :, : start + m],
            self.values[None, :, : start + m],
            attn_mask=mask.repeat(group, 1),
        )
        out = out.view(shape.heads, m, shape.head_dim).transpose(0, 1).reshape(m, -1)
        return self._linear("self_attn.o_proj", out)

    def _heads(self, name: str, x: Tensor, heads: int) -> Tensor:
        """[heads, m, head_dim]."""
        return self._linear(f"self_attn.{name}", x).view(len(x), heads, self.shape.head_dim).transpose(0, 1)

    def _reserve(self, rows: int) -> None:
        """Grow the cache by doubling."""
        missing = rows - self.keys.shape[1]
        if missing > 0:
            extra = max(missing, self.keys.shape[1], 256)
            self.keys, self.values = (F.pad(slab, (0, 0, 0, extra)) for slab in (self.keys, self.values))


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm over the last axis."""
    return F.rms_norm(x, weight.shape, weight, eps)


def rotary_frequencies(shape: HeadShape, device: torch.device) -> Tensor:
    """[head_dim / 2] radians a position."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float32, device=device) / shape.head_dim
    return 1.0 / shape.rope_theta**exponents


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding in the half-split layout; `x` [..., heads, m, head_dim]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
