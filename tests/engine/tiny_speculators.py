"""Tiny heads in the layout of vLLM's speculators: the published ones rewritten, and what only it has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.engine.tiny import HIDDEN, head_config, head_tensors, write_head
from tests.engine.tiny_eagle3 import eagle3_config, eagle3_tensors

BASE = "meta-llama/Tiny-Llama-Instruct"
OF_A_HEAD = ("draft_vocab_size", "target_hidden_size")
LATER = {
    "norm_before_residual": True,
    "norm_before_fc": True,
    "norm_output": True,
    "fc_norm": False,
    "embed_requires_grad": False,
}
"""What the trainer of the layout sets by default."""

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}


def speculators_config(kind: str, config: Mapping[str, object], **fields: object) -> dict[str, object]:
    """A published head's config.json as that layout has it, with further `fields`."""
    layer = {name: value for name, value in config.items() if name not in (*OF_A_HEAD, "bias", "qkv_bias")}
    layer |= {"attention_bias": False, "mlp_bias": False, "model_type": "llama", "rope_scaling": None}
    layer |= {"num_hidden_layers": 1, "pretraining_tp": 1, "use_cache": True}
    layer["_attn_implementation_autoset"] = True  # as configs that once built a model have it
    method = {"proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1}
    return {
        "architectures": ["Eagle3DraftModel"],
        "auto_map": {"": "config.Eagle3SpeculatorConfig"},
        "dtype": "bfloat16",
        "has_no_defaults_at_init": False,
        "speculators_model_type": kind,
        "speculators_version": "0.5.0",
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [method],
            "verifier": {"architectures": ["LlamaForCausalLM"], "name_or_path": BASE},
        },
        "target_hidden_size": None,
        "tie_word_embeddings": False,
        "transformer_layer_config": layer,
        **{name: config[name] for name in OF_A_HEAD if name in config},
        **fields,
    }


def renamed(tensors: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Tensor]:
    """Beginnings of names replaced."""
    found = {}
    for name, tensor in tensors.items():
        old = next((old for old in names if name.startswith(old)), "")
        found[names.get(old, "") + name.removeprefix(old)] = tensor
    return found


def eagle_config(layout: str, vocabulary: int, **fields: object) -> dict[str, object]:
    """Of an EAGLE-1/2 head."""
    config = head_config(layout, vocabulary)
    return speculators_config("eagle", config, layernorms=False, fusion_bias=layout != "llama3") | fields


def eagle_tensors(layout: str, model: PreTrainedModel) -> dict[str, Tensor]:
    """Of an EAGLE-1/2 head."""
    return renamed(head_tensors(layout, model), {"fc.": "fusion_fc.", "layers.0.": "transformer."})


def write_eagle(folder: Path, layout: str, model: PreTrainedModel) -> Path:
    """An EAGLE-1/2 head, `llama3` without a bias or `vicuna` with one."""
    config = eagle_config(layout, model.config.vocab_size)
    return write_head(folder, config, eagle_tensors(layout, model))


def later_tensors(layout: str, model: PreTrainedModel, fields: Mapping[str, object]) -> dict[str, Tensor]:
    """Of an EAGLE-3 head, with the tensors that its `fields` call for."""
    random = torch.Generator().manual_seed(9)

    def norm(size: int) -> Tensor:
        return 1 + 0.2 * torch.randn(size, generator=random)

    tensors = renamed(eagle3_tensors(layout, model), {"midlayer.": "layers.0."})
    if fields.get("norm_before_fc"):
        tensors["input_norm.weight"] = norm(3 * HIDDEN)
    if fields.get("fc_norm"):
        tensors |= {f"fc_norm.{tap}.weight": norm(HIDDEN) for tap in range(3)}
    layer = fields.get("transformer_layer_config", {})
    assert isinstance(layer, dict)
    if layer.get("attention_bias"):
        for letter in "qkvo":
            rows = len(tensors[f"layers.0.self_attn.{letter}_proj.weight"])
            tensors[f"layers.0.self_attn.{letter}_proj.bias"] = 0.1 * torch.randn(rows, generator=random)
    if layer.get("model_type") == "qwen3":
        tensors |= {f"layers.0.self_attn.{letter}_norm.weight": norm(8) for letter in "qk"}
    if fields.get("embed_requires_grad"):
        rows = len(model.get_input_embeddings().weight)
        tensors["embed_tokens.weight"] = torch.randn(rows, HIDDEN, generator=random)
    return tensors


def write_later(folder: Path, layout: str, model: PreTrainedModel, **fields: object) -> Path:
    """An EAGLE-3 head; fields of the layer go to `transformer_layer_config`."""
    config = speculators_config("eagle3", eagle3_config(layout, model.config.vocab_size))
    layer = {**config["transformer_layer_config"], **fields.get("transformer_layer_config", {})}
    tensors = later_tensors(layout, model, fields)
    return write_head(folder, config | fields | {"transformer_layer_config": layer}, tensors)
