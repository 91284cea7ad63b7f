"""EAGLE's heads as trainable modules, unrolled: every step sees what the same depth will see when drafting.

Step 0 reads the target's features, as a head does when it catches up; step j reads the outputs of step
j - 1, as it does at depth j + 1 of a tree (training-time test of EAGLE-3, Li et al., 2025; HASS, Zhang et
al., 2024). A query of step j at pair i therefore attends to step 0 up to pair i - j, and to one pair of each
later step.

B sequences, T pairs, H hidden size, F feature width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from engine.drafters.head_layer import HeadShape, rotary_frequencies, rotate
from engine.training.least_squares import LeastSquares
from engine.training.network import DraftNetwork


class UnrolledAttention(nn.Module):
    """Causal attention with rotary positions, over step 0 and one diagonal of each later step."""

    def __init__(self, shape: HeadShape, inputs: int, hidden: int) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(inputs, shape.heads * shape.head_dim, bias=False)
        self.k_proj = nn.Linear(inputs, shape.kv_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(inputs, shape.kv_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, hidden, bias=False)

    def forward(self, x: Tensor, past: list[tuple[Tensor, Tensor]]) -> Tensor:
        """[B, T, H] from [B, T, inputs]; the step's keys and values are appended to `past`."""
        (batch, length, _), shape = x.shape, self.shape
        group, step = shape.heads // shape.kv_heads, len(past)
        q = self._heads(self.q_proj(x), shape.heads)
        cos, sin = self._angles(length, x.device, q.dtype)
        q = rotate(q, cos, sin) * shape.head_dim**-0.5
        k = rotate(self._heads(self.k_proj(x), shape.kv_heads), cos, sin)
        past.append((k, self._heads(self.v_proj(x), shape.kv_heads)))
        q = q.view(batch, shape.kv_heads, group, length, shape.head_dim)
        keys, values = past[0]
        visible = torch.ones(length, length, dtype=torch.bool, device=x.device).tril(-step)
        # One product for the query heads of a group: [B, kv, group * T, T]
        scores = (q.flatten(2, 3) @ keys.transpose(-1, -2)).view(batch, shape.kv_heads, group, length, length)
        scores = scores.masked_fill(~visible, -torch.inf)
        later = [_delay(pair, step - s) for s, pair in enumerate(past[1:], 1)]
        diagonals = [(q * k[:, :, None]).sum(-1, keepdim=True) for k, _ in later]
        with torch.autocast(x.device.type, enabled=False):  # it would make fp32 of these largest tensors
            weights = torch.cat((scores, *diagonals), dim=-1).softmax(-1)
        main = weights[..., :length].flatten(2, 3) @ values
        out = main.view(batch, shape.kv_heads, group, length, shape.head_dim)
        for s, (_, v) in enumerate(later):
            out = out + weights[..., length + s, None] * v[:, :, None]
        return self.o_proj(out.flatten(1, 2).transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:2], heads, self.shape.head_dim).transpose(1, 2)  # [B, heads, T, D]

    def _angles(self, length: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        frequencies = rotary_frequencies(self.shape, device)
        angles = torch.outer(torch.arange(length, device=device).float(), frequencies).repeat(1, 2)
        return angles.cos().to(dtype), angles.sin().to(dtype)


class RmsNorm(nn.RMSNorm):
    """With the weight in the input's dtype, as fused kernels want it."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] to [..., H]."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class GatedMlp(nn.Module):
    """SwiGLU."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] to [..., H]."""
        return self.down_proj(self.inside(x))

    def inside(self, x: Tensor) -> Tensor:
        """What the last product reads, [..., inner]."""
        return F.silu(self.gate_proj(x)) * self.up_proj(x)


class EagleLayer(nn.Module):
    """The decoder layer of an EAGLE-1/2 head: no norm before attention."""

    def __init__(self, shape: HeadShape, hidden: int, inner: int) -> None:
        super().__init__()
        self.self_attn = UnrolledAttention(shape, hidden, hidden)
        self.mlp = GatedMlp(hidden, inner)
        self.post_attention_layernorm = RmsNorm(hidden, eps=shape.rms_norm_eps)

    def forward(self, x: Tensor, past: list[tuple[Tensor, Tensor]]) -> Tensor:
        """[B, T, H] to [B, T, H]."""
        x = x + self.self_attn(x, past)
        return x + self.mlp(self.post_attention_layernorm(x))


class Eagle3Layer(nn.Module):
    """The decoder layer of an EAGLE-3 head: attention over embedding and hidden state side by side."""

    def __init__(self, shape: HeadShape, hidden: int, inner: int) -> None:
        super().__init__()
        self.hidden_norm = RmsNorm(hidden, eps=shape.rms_norm_eps)
        self.input_layernorm = RmsNorm(hidden, eps=shape.rms_norm_eps)
        self.self_attn = UnrolledAttention(shape, 2 * hidden, hidden)
        self.mlp = GatedMlp(hidden, inner)
        self.post_attention_layernorm = RmsNorm(hidden, eps=shape.rms_norm_eps)

    def forward(self, embeddings: Tensor, hidden: Tensor, past: list[tuple[Tensor, Tensor]]) -> Tensor:
        """[B, T, H] each."""
        joined = torch.cat((self.input_layernorm(embeddings), self.hidden_norm(hidden)), dim=-1)
        hidden = hidden + self.self_attn(joined, past)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class UnrolledNetwork(DraftNetwork):
    """A head of one decoder layer, which reads its own outputs."""

    fc: nn.Linear  # from what is read to what the layer takes

    @property
    def layer(self) -> EagleLayer | Eagle3Layer:
        """The decoder layer."""
        raise NotImplementedError

    def read(self, features: Tensor) -> Tensor:
        """The target's features [B, T, F] as the hidden states [B, T, H] that step 0 reads."""
        raise NotImplementedError

    def step(self, embeddings: Tensor, hidden: Tensor, past: list[tuple[Tensor, Tensor]]) -> Tensor:
        """One step's outputs [B, T, H]; its keys and values are appended to `past`."""
        raise NotImplementedError

    def forward(self, embeddings: Tensor, features: Tensor, steps: int) -> list[Tensor]:
        """As every head."""
        past: list[tuple[Tensor, Tensor]] = []
        outputs: list[Tensor] = []
        embeddings = embeddings[:, 1:]
        hidden = first = self.read(features)
        for _ in range(steps):
            outputs.append(self.step(embeddings, hidden, past))
            hidden = torch.cat((first[:, :1], outputs[-1][:, :-1].to(first.dtype)), dim=1)
        return outputs

    def start(self, sums: LeastSquares) -> None:
        """`fc` is the guess; the layer's two outputs start at zero, so that it passes through."""
        weight, bias = sums.solve()
        self.fc.weight.copy_(weight)
        if self.fc.bias is not None:
            self.fc.bias.copy_(bias)
        nn.init.zeros_(self.layer.self_attn.o_proj.weight)
        nn.init.zeros_(self.layer.mlp.down_proj.weight)

    def config(self) -> dict[str, Any]:
        """Those of a Llama of one layer."""
        gate = self.layer.mlp.gate_proj
        shape = self.layer.self_attn.shape
        return llama_config(shape, gate.in_features, gate.out_features, layers=1) | {"bias": True}

    def _initialise(self, passed: Tensor) -> None:
        """Small weights, and an identity in `passed` [H, H]; the target's last layer would explode."""
        initialise_small(self)
        with torch.no_grad():
            passed += torch.eye(len(passed))


class EagleNetwork(UnrolledNetwork):
    """An EAGLE-1/2 head: embedding and feature joined, one decoder layer, the target's LM head."""

    taps = (-1,)

    def __init__(self, shape: HeadShape, hidden: int, inner: int) -> None:
        super().__init__()
        self.fc = nn.Linear(2 * hidden, hidden)
        self.layers = nn.ModuleList([EagleLayer(shape, hidden, inner)])
        self._initialise(self.fc.weight[:, hidden:])
        nn.init.zeros_(self.fc.bias)

    @property
    def layer(self) -> EagleLayer:
        """The only one."""
        layer = self.layers[0]
        assert isinstance(layer, EagleLayer)
        return layer

    def read(self, features: Tensor) -> Tensor:
        """As they are."""
        return features

    def step(self, embeddings: Tensor, hidden: Tensor, past: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Join, then the layer."""
        return self.layer(self.fc(torch.cat((embeddings, hidden.to(embeddings.dtype)), dim=-1)), past)

    def example(self, embeddings: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """The next feature from the pair."""
        return torch.cat((embeddings[:, 1:], features[:, :-1]), dim=-1), features[:, 1:]


class Eagle3Network(UnrolledNetwork):
    """An EAGLE-3 head: three of the target's layers fused, its own norm and LM head."""

    proposes_text = False

    def __init__(self, shape: HeadShape, hidden: int, inner: int, layers: int, target_rows: Tensor) -> None:
        """`layers` the target's has; the LM head starts as `target_rows` [D, H]."""
        super().__init__()
        self.taps = (2, layers // 2, layers - 3)
        self.fc = nn.Linear(3 * hidden, hidden, bias=False)
        self.midlayer = Eagle3Layer(shape, hidden, inner)
        self.norm = RmsNorm(hidden, eps=shape.rms_norm_eps)
        self._initialise(self.fc.weight[:, 2 * hidden :])
        self.lm_head = nn.Linear(hidden, len(target_rows), bias=False)
        with torch.no_grad():
            self.lm_head.weight.copy_(target_rows)

    @property
    def layer(self) -> Eagle3Layer:
        """The only one."""
        return self.midlayer

    def read(self, features: Tensor) -> Tensor:
        """The three layers, fused; what else is in `features` lies behind them."""
        return self.fc(features[..., : self.fc.in_features].to(self.fc.weight.dtype))

    def step(self, embeddings: Tensor, hidden: Tensor, past: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The layer."""
        return self.midlayer(embeddings.to(hidden.dtype), hidden, past)

    def scored(self, outputs: Tensor) -> Tensor:
        """Normed."""
        return self.norm(outputs)

    def lm_weight(self, target_rows: Tensor) -> Tensor:
        """Its own."""
        return self.lm_head.weight

    def example(self, embeddings: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """The last feature of the same place: a head's outputs skip `fc`, so that it must not look ahead."""
        read, hidden = features[:, :-1, : self.fc.in_features], embeddings.shape[-1]
        return read, features[:, :-1, -hidden:]

    def start(self, sums: LeastSquares) -> None:
        """The outputs are normed once more."""
        super().start(sums)
        self.norm.weight.fill_(sums.output_scale())

    def config(self) -> dict[str, Any]:
        """With an LM head of its own."""
        other = {"architectures": ["LlamaForCausalLMEagle3"], "bias": False, "tie_word_embeddings": False}
        return super().config() | other


def initialise_small(network: nn.Module) -> None:
    """Small random matrices."""
    for parameter in network.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)


def llama_config(shape: HeadShape, hidden: int, inner: int, layers: int) -> dict[str, Any]:
    """What config.json says of a Llama with another's embedding."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "num_hidden_layers": layers,
        "hidden_act": "silu",
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": True,
    }


def _delay(pair: tuple[Tensor, Tensor], by: int) -> tuple[Tensor, Tensor]:
    """Keys and values [B, kv, T, D] moved `by` pairs to the right."""
    if by == 0:
        return pair
    keys, values = (F.pad(x[:, :, :-by], (0, 0, by, 0)) for x in pair)
    return keys, values
