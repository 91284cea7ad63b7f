"""A Llama layer with no more operations than its arithmetic needs: a target's, and a draft head's.

Where it departs from transformers' modules: one product for q, k and v and one for gate and up; rotary
embeddings from a table; query heads folded into the query axis, so that keys are never repeated; keys and
values in a slab, written in place. It knows weights and rows, m at a time; it knows no tree and no
conversation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

from engine.experts import Experts
from engine.linear import Linear, can_pack

FIRST_ROWS = 256  # of the slab and the rotary table, which then double
MANY_ROWS = 32  # of queries, from which on attention in bf16 on a CPU is faster as two plain products
MOST_SCORES = 2**25  # that they may hold, 64 MB


@dataclass(frozen=True)
class LayerShape:
    """What the weights do not tell about a layer."""

    heads: int
    kv_heads: int
    head_dim: int
    rms_norm_eps: float


@dataclass
class Mlp:
    """A gated MLP."""

    gate_up: Linear
    down: Linear

    def __call__(self, x: Tensor) -> Tensor:
        """[m, H] to [m, H]."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


@dataclass
class Layer:
    """Weights of attention and MLP, with what is done to normed inputs; where norms stand, kinds differ."""

    shape: LayerShape
    qkv: Linear
    output: Linear
    mlp: Mlp | Experts
    q_norm: Tensor | None = None  # [head_dim], of Qwen3
    k_norm: Tensor | None = None

    def attention(
        self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache, index: int, bias: Tensor | None
    ) -> Tensor:
        """[m, H] from [m, inputs]; keys and values go to layer `index` of the cache, which gives back T rows.

        `cos` and `sin` [m, 1, head_dim] as `RotaryTable` gives them; `bias` [group * m, T], which
        `group_bias` makes, is added to the scores.
        """
        q, k, v = self._heads(x, cos, sin)
        return self.output(attend(q, *cache.write(index, k, v), bias))

    def group_bias(self, bias: Tensor | None) -> Tensor | None:
        """[m, T] for each query head of a group."""
        if bias is None:
            return None
        group = self.shape.heads // self.shape.kv_heads
        return bias.expand(group, *bias.shape).reshape(-1, bias.shape[1])  # one copy; `repeat` takes twice

    def _heads(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q [m, heads, head_dim], k and v [m, kv_heads, head_dim]; q and k rotated together."""
        shape = self.shape
        heads = self.qkv(x).view(len(x), -1, shape.head_dim)
        qk, v = heads.split((shape.heads + shape.kv_heads, shape.kv_heads), dim=1)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = qk.split((shape.heads, shape.kv_heads), dim=1)
            q, k = rms_norm(q, self.q_norm, shape.rms_norm_eps), rms_norm(k, self.k_norm, shape.rms_norm_eps)
            qk = torch.cat((q, k), dim=1)
        qk = torch.addcmul(qk * cos, qk.roll(shape.head_dim // 2, dims=-1), sin)
        q, k = qk.split((shape.heads, shape.kv_heads), dim=1)
        return q, k, v


class Cache(Protocol):
    """Where the keys and values of a forward's rows go: a slab's end, or a `Window` of it."""

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's k and v [m, kv_heads, head_dim]; what to attend to, [kv_heads, T, head_dim]."""


class Slab:
    """Keys and values of layers on one device: a tensor [layers, 2, kv_heads, rows, head_dim] that doubles.

    Its first `length` rows count; those after them are there to be overwritten, and finite: a window's rows
    attend to them with no weight.
    """

    def __init__(self, layers: int, shape: LayerShape, like: Tensor) -> None:
        self.rows = like.new_zeros(layers, 2, shape.kv_heads, 0, shape.head_dim)
        self.length = 0

    def reserve(self, rows: int) -> None:
        """Make room for so many more."""
        capacity, needed = self.rows.shape[3], self.length + rows
        if needed > capacity:
            shape = list(self.rows.shape)
            shape[3] = max(needed, 2 * capacity, FIRST_ROWS)
            grown = self.rows.new_zeros(shape)
            grown[:, :, :, : self.length] = self.rows[:, :, :, : self.length]
            self.rows = grown

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's k and v [m, kv_heads, head_dim]; all it has, [kv_heads, length + m, head_dim].

        The new ones count once `length` is raised.
        """
        keys, values = self.rows[layer, :, :, : self.length + len(k)].unbind()
        keys[:, self.length :] = k.transpose(0, 1)
        values[:, self.length :] = v.transpose(0, 1)
        return keys, values

    def keep(self, path: list[int]) -> None:
        """Of the rows after `length` count those of `path` from now on: moved together, in all its layers."""
        end = self.length + len(path)
        if path != list(range(len(path))):
            source = self.length + torch.tensor(path).to(self.rows.device, non_blocking=True)
            self.rows[:, :, :, self.length : end] = self.rows.index_select(3, source)
        self.length = end


class RotaryTable:
    """Cosines and sines by position."""

    def __init__(self, frequencies: Tensor, like: Tensor, scaling: float = 1.0) -> None:
        """`frequencies` [head_dim / 2] in radians a position; the table is in the dtype of `like`."""
        self.frequencies = frequencies.to(like.device, torch.float32)
        self.scaling = scaling
        self.table = like.new_empty(0, 2, 1, 2 * len(frequencies))  # [positions, 2, 1, head_dim]

    def reserve(self, end: int) -> None:
        """Extend the table to the positions below `end`."""
        if end > len(self.table):
            size = max(end, 2 * len(self.table), FIRST_ROWS)
            positions = torch.arange(size, dtype=torch.float32, device=self.frequencies.device)
            angles = torch.outer(positions, self.frequencies)  # [positions, head_dim / 2]
            # The second half of a head rotates into the first with a minus, which the table carries.
            cos, sin = angles.cos().repeat(1, 2), torch.cat((-angles.sin(), angles.sin()), dim=-1)
            table = self.scaling * torch.stack((cos, sin), dim=1)[:, :, None]
            self.table = table.to(self.table.dtype)

    def rows(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and signed sin, each [m, 1, head_dim]."""
        cos, sin = self.table.index_select(0, positions).unbind(1)
        return cos, sin


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm over the last axis."""
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def attend(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """[m, heads * head_dim] from q [m, heads, head_dim], all keys and values [kv_heads, T, head_dim].

    The query heads of a group read the same keys: folded into the query axis, they are rows of one product.
    """
    m, heads, head_dim = q.shape
    folded = q.transpose(0, 1).reshape(1, len(keys), -1, head_dim)  # [1, kv_heads, group * m, head_dim]
    if products_are_faster(folded, keys):
        out = attend_by_products(folded[0], keys, values, bias)
    else:
        out = F.scaled_dot_product_attention(folded, keys[None], values[None], attn_mask=bias)
    return out.view(heads, m, head_dim).transpose(0, 1).reshape(m, -1)


def products_are_faster(folded: Tensor, keys: Tensor) -> bool:
    """Measured with 9 and 32 heads, 200 and 1000 keys: a half of the time for 192 rows, twice for 3."""
    rows = folded.shape[2]
    scores = len(keys) * rows * keys.shape[1]
    in_bf16 = keys.dtype == torch.bfloat16 and keys.device.type == "cpu" and can_pack(keys.dtype)
    return in_bf16 and rows >= MANY_ROWS and scores <= MOST_SCORES


def attend_by_products(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """[kv_heads, rows, head_dim] from q of that shape.

    The scores are rounded to bf16, by which SmolLM2-135M's logits come no further from fp32's.
    """
    bias = q.new_zeros(1) if bias is None else bias
    bias = bias.expand(len(keys), q.shape[1], keys.shape[1])
    scores = torch.baddbmm(bias, q, keys.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
    return torch.bmm(scores.softmax(-1), values)
