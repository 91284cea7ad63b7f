"""The decoder of Llama-shaped models: Llama, Mistral, Mixtral, Qwen2, Qwen3, Qwen3-MoE."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from transformers import (
    DynamicCache,
    LlamaForCausalLM,
    MistralForCausalLM,
    MixtralForCausalLM,
    PreTrainedModel,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
    Qwen3MoeForCausalLM,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaMLP
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

from engine.errors import UnsupportedModelError
from engine.experts import Experts
from engine.layer import Cache, Layer, LayerShape, Mlp, RotaryTable, rms_norm
from engine.linear import Linear, can_pack, fused

FAMILIES = (
    LlamaForCausalLM,
    MistralForCausalLM,
    MixtralForCausalLM,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
    Qwen3MoeForCausalLM,
)


class _DecoderLayer(NamedTuple):
    """One layer with its two norms."""

    layer: Layer
    attention_norm: Tensor  # [H]
    mlp_norm: Tensor

    @property
    def device(self) -> torch.device:
        """Where all of it is."""
        return self.attention_norm.device


class Decoder:
    """Embedding, layers, final norm and LM head.

    The layers may be spread over devices, in `stages`: neighbours that share one. All else is at home.

    It takes over the weights of `model`: where several are fused the model's become views of them, and where
    they are packed the model's are given up, to the device "meta". Raises UnsupportedModelError.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        check_supported(model)
        if can_pack(model.dtype):
            _let_go_of_the_file(model)
        body, config = model.model, model.config
        heads = config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        self.shape = LayerShape(heads, config.num_key_value_heads, head_dim, config.rms_norm_eps)
        self.embedding: Tensor = body.embed_tokens.weight.detach()  # [V, H]
        self.layers = [_layer(module, self.shape) for module in body.layers]
        self.stages = [list(layers) for _, layers in groupby(self.layers, lambda layer: layer.device)]
        self.final_norm: Tensor = body.norm.weight.detach()
        tied = model.lm_head.weight is body.embed_tokens.weight
        self.head = Linear(self.embedding, keep_plain=True) if tied else _fuse(model.lm_head)
        self.rotary = _rotary(model, self.embedding)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        caches: Sequence[Cache],
        bias: Tensor | None,
        wanted: list[int],
    ) -> dict[int, Tensor]:
        """The `wanted` hidden states [m, H] by number, and the last, which is the final normed one.

        State i is what layer i reads. `tokens` and `positions` are [m]; their keys and values go to the
        caches, one for each stage, and `bias` [m, T] is added to the scores of the T rows that they give
        back. All that comes in or goes out is at home.
        """
        eps, home = self.shape.rms_norm_eps, self.embedding.device
        rotation = self.rotary.rows(positions)
        x = F.embedding(tokens, self.embedding)  # [m, H], the residual stream
        states, i = {}, 0
        for stage, cache in zip(self.stages, caches, strict=True):
            device = stage[0].device
            x, cos, sin = (_at(device, tensor) for tensor in (x, *rotation))
            grouped = stage[0].layer.group_bias(None if bias is None else _at(device, bias))
            for place, (layer, attention_norm, mlp_norm) in enumerate(stage):
                if i in wanted:
                    states[i] = _at(home, x)
                x = x + layer.attention(rms_norm(x, attention_norm, eps), cos, sin, cache, place, grouped)
                x = x + layer.mlp(rms_norm(x, mlp_norm, eps))
                i += 1
        states[i] = rms_norm(_at(home, x), self.final_norm, eps)
        return states


def _at(device: torch.device, x: Tensor) -> Tensor:
    """`x` there. Where it is already, nothing that a graph could not record."""
    return x if x.device == device else x.to(device)


def _layer(module: LlamaDecoderLayer, shape: LayerShape) -> _DecoderLayer:
    attention = module.self_attn
    has_norms = hasattr(attention, "q_norm")  # Qwen3 and Qwen3-MoE
    layer = Layer(
        shape,
        qkv=_fuse(attention.q_proj, attention.k_proj, attention.v_proj),
        output=_fuse(attention.o_proj),
        mlp=_mlp(module.mlp),
        q_norm=attention.q_norm.weight.detach() if has_norms else None,
        k_norm=attention.k_norm.weight.detach() if has_norms else None,
    )
    norms = module.input_layernorm, module.post_attention_layernorm
    return _DecoderLayer(layer, *(norm.weight.detach() for norm in norms))


def _mlp(module: LlamaMLP | MixtralSparseMoeBlock) -> Mlp | Experts:
    if not hasattr(module, "experts"):
        return Mlp(_fuse(module.gate_proj, module.up_proj), _fuse(module.down_proj))
    router, experts = module.gate, module.experts
    return Experts(
        router.weight.detach(),
        experts.gate_up_proj.detach(),
        experts.down_proj.detach(),
        router.top_k,
        getattr(router, "norm_topk_prob", True),  # Mixtral's always are
    )


def _rotary(model: PreTrainedModel, like: Tensor) -> RotaryTable:
    """Its frequencies are those for the model's context.

    "dynamic" ones change beyond it, where the engine never goes.
    """
    default = model.model.rotary_emb.compute_default_rope_parameters
    compute = ROPE_INIT_FUNCTIONS.get(model.config.rope_parameters["rope_type"], default)
    frequencies, scaling = compute(model.config)
    return RotaryTable(frequencies, like, scaling)


def _fuse(*modules: nn.Linear) -> Linear:
    """One product for all of `modules`, which get views of its weights, or nothing where it packs them."""
    weights = [module.weight.detach() for module in modules]
    biases = [None if module.bias is None else module.bias.detach() for module in modules]
    product = fused(weights, biases)
    sizes = [len(weight) for weight in weights]
    left = [w.to("meta") for w in weights] if product.packed else product.weight.split(sizes)
    for module, part in zip(modules, left, strict=True):
        module.weight = nn.Parameter(part, requires_grad=module.weight.requires_grad)
    return product


def _let_go_of_the_file(model: PreTrainedModel) -> None:
    """Copy the weights that stay: a single one in the mapped file would keep all of its pages in memory."""
    products = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    tied = id(model.get_input_embeddings().weight)
    for weight in model.parameters():
        stays = id(weight) not in products or id(weight) == tied
        if stays and weight.device.type == "cpu":
            weight.data = weight.data.clone()


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
    if not plain or len({weight.dtype for weight in weights}) > 1:
        raise UnsupportedModelError("the lean decoder wants plain weights of one type, not quantized ones")
    layers = [list(module.parameters()) for module in model.model.layers]
    inside = {id(weight) for layer in layers for weight in layer}
    together = [*layers, [weight for weight in weights if id(weight) not in inside]]
    if any(len({weight.device for weight in part}) > 1 for part in together):
        raise UnsupportedModelError(
            "the lean decoder wants each layer on one device, and all that is no layer on one"
        )
