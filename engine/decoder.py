"""A Llama-shaped decoder with no more operations than its arithmetic needs: Llama, Mistral, Qwen2, Qwen3.

Where it departs from transformers' modules: one product for q, k and v and one for gate and up; rotary
embeddings from a table; query heads folded into the query axis, so that keys are never repeated; keys and
values of all layers in one slab, written in place. It knows weights and rows, m at a time; it knows no tree
and no conversation.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from transformers import (
    DynamicCache,
    LlamaForCausalLM,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from engine.errors import UnsupportedModelError
from engine.linear import Linear, can_pack

FAMILIES = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
FIRST_ROWS = 256  # of the slab and the rotary table, which then double
MANY_ROWS = 32  # of queries, from which on attention in bf16 on a CPU is faster as two plain products
MOST_SCORES = 2**25  # that they may hold, 64 MB


class Decoder:
    """Embedding, layers, final norm and LM head.

    It takes over the weights of `model`: where several are fused the model's become views of them, and where
    they are packed the model's are given up, to the device "meta". Raises UnsupportedModelError.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        check_supported(model)
        body, config = model.model, model.config
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps: float = config.rms_norm_eps
        self.embedding: Tensor = body.embed_tokens.weight.detach()  # [V, H]
        self.layers = [_Layer(module) for module in body.layers]
        self.final_norm: Tensor = body.norm.weight.detach()
        tied = model.lm_head.weight is body.embed_tokens.weight
        self.head = Linear(self.embedding, keep_plain=True) if tied else _fuse(model.lm_head)
        self.rotary = _Rotary(model, self.embedding)

    def forward(
        self, tokens: Tensor, positions: Tensor, slab: Slab, bias: Tensor | None, wanted: list[int]
    ) -> dict[int, Tensor]:
        """The `wanted` hidden states [m, H] by number, and the last, which is the final normed one.

        State i is what layer i reads. `tokens` and `positions` are [m]; their keys and values follow the
        slab's first `slab.length` rows. `bias` [m, length + m] is added to the scores.
        """
        if bias is not None:
            bias = bias.repeat(self.heads // self.kv_heads, 1)  # [group * m, length + m]
        cos, sin = self.rotary.rows(positions)
        x = F.embedding(tokens, self.embedding)  # [m, H], the residual stream
        states = {}
        for i, layer in enumerate(self.layers):
            if i in wanted:
                states[i] = x
            q, k, v = self._heads(layer, self._norm(x, layer.attention_norm), cos, sin)
            x = x + layer.output(_attention(q, *slab.write(i, k, v), bias))
            gate, up = layer.gate_up(self._norm(x, layer.mlp_norm)).chunk(2, dim=-1)
            x = x + layer.down(F.silu(gate) * up)
        states[len(self.layers)] = self._norm(x, self.final_norm)
        return states

    def _heads(self, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q [m, heads, head_dim], k and v [m, kv_heads, head_dim]; q and k rotated together."""
        heads = layer.qkv(x).view(len(x), -1, self.head_dim)
        qk, v = heads.split((self.heads + self.kv_heads, self.kv_heads), dim=1)
        if layer.q_norm is not None:
            q, k = qk.split((self.heads, self.kv_heads), dim=1)
            qk = torch.cat((self._norm(q, layer.q_norm), self._norm(k, layer.k_norm)), dim=1)
        qk = torch.addcmul(qk * cos, qk.roll(self.head_dim // 2, dims=-1), sin)
        q, k = qk.split((self.heads, self.kv_heads), dim=1)
        return q, k, v

    def _norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """RMSNorm over the last axis."""
        return F.rms_norm(x, x.shape[-1:], weight, self.eps)


class Slab:
    """Keys and values of all layers: one tensor [layers, 2, kv_heads, rows, head_dim], grown by doubling.

    Its first `length` rows count; those after them are there to be overwritten.
    """

    def __init__(self, decoder: Decoder) -> None:
        shape = (len(decoder.layers), 2, decoder.kv_heads, 0, decoder.head_dim)
        self.rows = torch.empty(shape, dtype=decoder.embedding.dtype, device=decoder.embedding.device)
        self.length = 0

    def reserve(self, rows: int) -> None:
        """Make room for so many more."""
        capacity, needed = self.rows.shape[3], self.length + rows
        if needed > capacity:
            shape = list(self.rows.shape)
            shape[3] = max(needed, 2 * capacity, FIRST_ROWS)
            grown = self.rows.new_empty(shape)
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
        """Of the rows after `length` count those of `path` from now on: moved together, in all layers."""
        end = self.length + len(path)
        if path != list(range(len(path))):
            source = self.length + torch.tensor(path, device=self.rows.device)
            self.rows[:, :, :, self.length : end] = self.rows.index_select(3, source)
        self.length = end


class _Layer:
    """One layer's weights."""

    def __init__(self, module: LlamaDecoderLayer) -> None:
        attention, mlp = module.self_attn, module.mlp
        self.attention_norm: Tensor = module.input_layernorm.weight.detach()
        self.qkv = _fuse(attention.q_proj, attention.k_proj, attention.v_proj)
        has_norms = hasattr(attention, "q_norm")  # Qwen3
        self.q_norm: Tensor | None = attention.q_norm.weight.detach() if has_norms else None  # [head_dim]
        self.k_norm: Tensor | None = attention.k_norm.weight.detach() if has_norms else None
        self.output = _fuse(attention.o_proj)
        self.mlp_norm: Tensor = module.post_attention_layernorm.weight.detach()
        self.gate_up = _fuse(mlp.gate_proj, mlp.up_proj)
        self.down = _fuse(mlp.down_proj)


class _Rotary:
    """Cosines and sines by position.

    The frequencies are those for the model's context: "dynamic" ones change beyond it, where the engine never
    goes.
    """

    def __init__(self, model: PreTrainedModel, like: Tensor) -> None:
        default = model.model.rotary_emb.compute_default_rope_parameters
        compute = ROPE_INIT_FUNCTIONS.get(model.config.rope_parameters["rope_type"], default)
        frequencies, self.scaling = compute(model.config)
        self.frequencies = frequencies.to(like.device)  # [head_dim / 2] fp32
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


def _attention(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """[m, heads * head_dim] from q [m, heads, head_dim], all keys and values [kv_heads, T, head_dim].

    The query heads of a group read the same keys: folded into the query axis, they are rows of one product.
    """
    m, heads, head_dim = q.shape
    folded = q.transpose(0, 1).reshape(1, len(keys), -1, head_dim)  # [1, kv_heads, group * m, head_dim]
    if _products_are_faster(folded, keys):
        out = _attention_by_products(folded[0], keys, values, bias)
    else:
        out = F.scaled_dot_product_attention(folded, keys[None], values[None], attn_mask=bias)
    return out.view(heads, m, head_dim).transpose(0, 1).reshape(m, -1)


def _products_are_faster(folded: Tensor, keys: Tensor) -> bool:
    """Measured with 9 and 32 heads, 200 and 1000 keys: a half of the time for 192 rows, twice for 3."""
    rows = folded.shape[2]
    scores = len(keys) * rows * keys.shape[1]
    in_bf16 = keys.dtype == torch.bfloat16 and keys.device.type == "cpu" and can_pack(keys.dtype)
    return in_bf16 and rows >= MANY_ROWS and scores <= MOST_SCORES


def _attention_by_products(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """[kv_heads, rows, head_dim] from q of that shape.

    The scores are rounded to bf16, by which SmolLM2-135M's logits come no further from fp32's.
    """
    bias = q.new_zeros(1) if bias is None else bias
    bias = bias.expand(len(keys), q.shape[1], keys.shape[1])
    scores = torch.baddbmm(bias, q, keys.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
    return torch.bmm(scores.softmax(-1), values)


def _fuse(*modules: nn.Linear) -> Linear:
    """One product for all of `modules`, which get views of its weights, or nothing where it packs them."""
    weights = [module.weight.detach() for module in modules]
    biases = [module.bias.detach() for module in modules if module.bias is not None]
    weight = torch.cat(weights) if len(weights) > 1 else weights[0]  # [out, in]
    fused = Linear(weight, torch.cat(biases) if biases else None)
    for module, part in zip(modules, weight.split([len(w) for w in weights]), strict=True):
        left = part.to("meta") if fused.packed else part
        module.weight = nn.Parameter(left, requires_grad=module.weight.requires_grad)
    return fused


def check_supported(model: PreTrainedModel) -> None:
    """Raise UnsupportedModelError for what this decoder would compute differently."""
    name, config = type(model).__name__, model.config
    if type(model) not in FAMILIES:
        known = ", ".join(family.__name__ for family in FAMILIES)
        raise UnsupportedModelError(f"the lean decoder does not know {name}, only {known}")
    if any(DynamicCache(config=config).is_sliding):
        raise UnsupportedModelError(f"the lean decoder has no sliding window, which this {name} has")
    if config.hidden_act != "silu":
        raise UnsupportedModelError(f"the lean decoder has no {config.hidden_act} activation, only silu")
    rope = config.rope_parameters
    # LongRoPE's factors depend on how long the text is, and a row in the slab keeps those it got.
    if rope["rope_type"] == "longrope" or rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise UnsupportedModelError(
            f"the lean decoder does not know the rotary embedding of this {name} ({rope['rope_type']})"
        )
    weights = list(model.parameters())
    if any(weight.device.type == "meta" for weight in weights):
        raise UnsupportedModelError("another decoder has taken this model's weights: load it again")
    plain = all(type(m) is nn.Linear for m in model.modules() if isinstance(m, nn.Linear))
    if not plain or len({(weight.device, weight.dtype) for weight in weights}) > 1:
        raise UnsupportedModelError(
            "the lean decoder wants plain weights of one type on one device, neither quantized nor spread"
        )
