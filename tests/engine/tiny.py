"""Tiny random fp32 models and EAGLE heads, seeded: large enough to disagree, small enough for many runs.

The weights are wide, so that logits are far apart (no near ties that rounding could flip) and every token of
the context matters (a wrong mask or position changes the text).
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

HIDDEN = 32
MODELS = ("llama", "llama-tied", "qwen2", "qwen3")
FAMILIES = (*MODELS, "mixtral", "qwen3-moe")
SPREAD = 0.3  # standard deviation of the weights

_COMMON = {
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}


def make_model(
    name: str, seed: int = 1, context: int = 2048, spread: float = SPREAD, layers: int | None = None
) -> PreTrainedModel:
    """A random causal LM of one of the `FAMILIES`, of 2 or 3 layers or as many as wanted."""
    common = {**_COMMON, "max_position_embeddings": context, "num_hidden_layers": layers or 2}
    if name == "llama":  # grouped-query attention
        model = LlamaForCausalLM(LlamaConfig(vocab_size=97, **common))
    elif name == "llama-tied":
        tied = {**common, "num_hidden_layers": layers or 3, "tie_word_embeddings": True}
        model = LlamaForCausalLM(LlamaConfig(vocab_size=101, **tied))
    elif name == "qwen2":  # biases of q, k and v
        model = Qwen2ForCausalLM(Qwen2Config(vocab_size=113, **common))
    elif name == "qwen3":  # norms of q and k, and heads wider than hidden size / heads
        model = Qwen3ForCausalLM(Qwen3Config(vocab_size=131, head_dim=16, **common))
    elif name == "mixtral":  # two of four experts
        model = MixtralForCausalLM(MixtralConfig(vocab_size=103, num_local_experts=4, **common))
    elif name == "qwen3-moe":  # three of eight, whose shares do not add up to 1, after a dense layer
        experts = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24}
        config = Qwen3MoeConfig(vocab_size=109, head_dim=16, mlp_only_layers=[0], **experts, **common)
        model = Qwen3MoeForCausalLM(config)
    else:
        raise ValueError(name)
    fill(model, seed, spread)
    return model.eval()


def fill(model: torch.nn.Module, seed: int, spread: float = SPREAD) -> None:
    """Random weights; norms around 1."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=random)
            weight.copy_(1 + 0.2 * noise if "norm" in name else spread * noise)


def perturbed(model: PreTrainedModel, seed: int, amount: float) -> PreTrainedModel:
    """The same model with noise on its weights: a draft model that is right now and then."""
    other = type(model)(model.config)
    other.load_state_dict(model.state_dict())
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(amount * torch.randn(weight.shape, generator=random))
    return other.eval()


HEADS = ("llama3", "vicuna", "qwen2", "shipped")
"""Published layouts.

llama3: "bias": false, its own kv heads and rope base; vicuna (and LLaMA2): fc.bias, a copy of the embedding,
no rope_theta, a .bin file; qwen2: fc.bias and biases of q, k and v; shipped: bf16 and a draft_vocab.
"""


def head_config(layout: str, vocabulary: int) -> dict[str, object]:
    """config.json as the layout's checkpoints carry it."""
    config: dict[str, object] = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": 48,
        "max_position_embeddings": 2048,
        "num_attention_heads": 4,
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-6,
        "vocab_size": vocabulary,
    }
    extra: dict[str, dict[str, object]] = {
        "llama3": {"bias": False, "num_key_value_heads": 1, "rms_norm_eps": 1e-5, "rope_theta": 500000.0},
        "vicuna": {},
        "qwen2": {"num_key_value_heads": 2, "qkv_bias": True, "rope_theta": 1000000.0},
        "shipped": {"bias": True, "draft_vocab_size": 40, "num_key_value_heads": 2, "rope_theta": 100000.0},
    }
    return config | extra[layout]


def head_tensors(layout: str, target: PreTrainedModel, seed: int = 5) -> dict[str, Tensor]:
    """Random weights under the published names."""
    embedding = target.get_input_embeddings().weight.detach()
    kv = {"llama3": 8, "vicuna": 32, "qwen2": 16, "shipped": 16}[layout]
    shapes = {
        "fc.weight": (HIDDEN, 2 * HIDDEN),
        "layers.0.self_attn.q_proj.weight": (HIDDEN, HIDDEN),
        "layers.0.self_attn.k_proj.weight": (kv, HIDDEN),
        "layers.0.self_attn.v_proj.weight": (kv, HIDDEN),
        "layers.0.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
        "layers.0.mlp.gate_proj.weight": (48, HIDDEN),
        "layers.0.mlp.up_proj.weight": (48, HIDDEN),
        "layers.0.mlp.down_proj.weight": (HIDDEN, 48),
        "layers.0.post_attention_layernorm.weight": (HIDDEN,),
    }
    if layout != "llama3":
        shapes["fc.bias"] = (HIDDEN,)
    if layout == "qwen2":
        shapes |= {
            f"layers.0.self_attn.{name}_proj.bias": (rows,)
            for name, rows in (("q", HIDDEN), ("k", kv), ("v", kv))
        }
    random = torch.Generator().manual_seed(seed)
    tensors = {name: 0.2 * torch.randn(shape, generator=random) for name, shape in shapes.items()}
    tensors["layers.0.post_attention_layernorm.weight"] += 1
    if layout == "vicuna":
        tensors["embed_tokens.weight"] = embedding.clone()
    if layout == "shipped":
        tensors = {name: tensor.bfloat16() for name, tensor in tensors.items()}
        ids = torch.randperm(len(embedding), generator=random)[:40].sort().values
        tensors["draft_vocab"] = ids.to(torch.int32)
    return tensors


def write_head(folder: Path, config: object, tensors: dict[str, Tensor], binary: bool = False) -> Path:
    """A checkpoint folder: config.json and model.safetensors or pytorch_model.bin."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if binary:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors")
    return folder


def write_layout(folder: Path, layout: str, target: PreTrainedModel, seed: int = 5) -> Path:
    """A tiny checkpoint of a published layout, made for `target`."""
    config = head_config(layout, target.config.vocab_size)
    return write_head(folder, config, head_tensors(layout, target, seed), binary=layout == "vicuna")
