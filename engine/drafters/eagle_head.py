"""The EAGLE-1/2 draft network: one Llama layer that continues the target's features (Li et al., 2024).

Pair i joins the embedding of token i + 1 with the feature of token i, at rotary position i; its output
estimates the feature of token i + 1, which the target's LM head turns into the distribution of token i + 2.
The layer has no input norm and nothing is normed before the LM head.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn


@dataclass(frozen=True)
class HeadShape:
    """What the tensors do not tell about a head."""

    heads: int
    kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float


class EagleHead:
    """The network with its own KV cache. Embedding and LM head are the target's, shared and never copied.

    `tensors` carry their published names; biases are used where present. `draft_vocab` ([D] target ids)
    restricts the proposals to those rows of the LM head, which are gathered once.
    """

    def __init__(
        self,
        shape: HeadShape,
        tensors: dict[str, Tensor],
        embedding: nn.Embedding,
        lm_head: nn.Linear,
        draft_vocab: Tensor | None = None,
    ) -> None:
        self.shape = shape
        self.tensors = tensors
        self.embedding = embedding
        self.draft_vocab = draft_vocab
        rows = slice(None) if draft_vocab is None else draft_vocab
        self.lm_weight = lm_head.weight[rows]  # [D, H]; a view where nothing is trimmed
        self.lm_bias = None if lm_head.bias is None else lm_head.bias[rows]
        fc = tensors["fc.weight"]
        self.device, self.dtype, self.hidden_size = fc.device, fc.dtype, fc.shape[0]
        exponents = (
            torch.arange(0, shape.head_dim, 2, dtype=torch.float32, device=self.device) / shape.head_dim
        )
        self.frequencies = 1.0 / shape.rope_theta**exponents  # [head_dim / 2]
        self.keys = torch.empty(shape.kv_heads, 0, shape.head_dim, dtype=self.dtype, device=self.device)
        self.values = torch.empty_like(self.keys)

    @property
    def vocabulary(self) -> int:
        """Tokens it can propose."""
        return self.lm_weight.shape[0]

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, start: int, mask: Tensor
    ) -> Tensor:
        """One pass over m pairs, [m, H]; their keys and values are written at cache rows `start` … `start +
        m`.

        `tokens` [m], `features` [m, H], `positions` [m] rotary positions; `mask` [m, start + m] bool, True =
        attends.
        """
        pairs = torch.cat((self.embedding(tokens).to(self.dtype), features.to(self.dtype)), dim=-1)  # [m, 2H]
        hidden = self._linear("fc", pairs)
        hidden = hidden + self._attention(hidden, positions, start, mask)
        weight = self.tensors["layers.0.post_attention_layernorm.weight"]
        normed = F.rms_norm(hidden, (self.hidden_size,), weight, self.shape.rms_norm_eps)
        gated = F.silu(self._linear("layers.0.mlp.gate_proj", normed)) * self._linear(
            "layers.0.mlp.up_proj", normed
        )
        return hidden + self._linear("layers.0.mlp.down_proj", gated)

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """[m, D] fp32 log-probabilities of the next token, from [m, H]."""
        return F.linear(hidden, self.lm_weight, self.lm_bias).float().log_softmax(-1)

    def token_ids(self, ids: Tensor) -> Tensor:
        """Draft ids to target ids."""
        return ids if self.draft_vocab is None else self.draft_vocab[ids]

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def _attention(self, hidden: Tensor, positions: Tensor, start: int, mask: Tensor) -> Tensor:
        m, shape = len(hidden), self.shape
        group = shape.heads // shape.kv_heads
        q = (
            self._linear("layers.0.self_attn.q_proj", hidden)
            .view(m, shape.heads, shape.head_dim)
            .transpose(0, 1)
        )
        k = (
            self._linear("layers.0.self_attn.k_proj", hidden)
            .view(m, shape.kv_heads, shape.head_dim)
            .transpose(0, 1)
        )
        v = (
            self._linear("layers.0.self_attn.v_proj", hidden)
            .view(m, shape.kv_heads, shape.head_dim)
            .transpose(0, 1)
        )
        angles = torch.outer(positions.float(), self.frequencies).repeat(1, 2)  # [m, head_dim]
        cos, sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        self._reserve(start + m)
        self.keys[:, start : start + m] = _rotate(k, cos, sin)
        self.values[:, start : start + m] = v
        # Query heads of a group share keys: folding them into the query axis avoids repeating the cache.
        out = F.scaled_dot_product_attention(
            _rotate(q, cos, sin).reshape(1, shape.kv_heads, group * m, shape.head_dim),
            self.keys[None, :, : start + m],
            self.values[None, :, : start + m],
            attn_mask=mask.repeat(group, 1),
        )
        out = out.view(shape.heads, m, shape.head_dim).transpose(0, 1).reshape(m, -1)
        return self._linear("layers.0.self_attn.o_proj", out)

    def _reserve(self, rows: int) -> None:
        """Grow the cache by doubling."""
        missing = rows - self.keys.shape[1]
        if missing > 0:
            extra = max(missing, self.keys.shape[1], 256)
            self.keys, self.values = (F.pad(slab, (0, 0, 0, extra)) for slab in (self.keys, self.values))


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding in the half-split layout; `x` [heads, m, head_dim]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
