"""Writes a trained head in the published layout, which every loader of EAGLE heads reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.drafters.head_layer import HeadShape
from engine.training.network import DraftNetwork, Eagle3Network


def write_head(
    folder: Path, network: DraftNetwork, shape: HeadShape, draft_vocab: Tensor, vocabulary: int, context: int
) -> None:
    """`config.json` and `model.safetensors`, in bf16.

    `draft_vocab` [D] target ids, sorted, of the target's `vocabulary`; `context` the target's, tokens. An
    EAGLE-3 head carries the draft vocabulary as `d2t` (offset of each draft id to its target id) and `t2d`,
    an EAGLE-1/2 head as `draft_vocab`.
    """
    tensors: dict[str, Tensor] = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in network.state_dict().items()
    }
    ids = draft_vocab.cpu()
    if isinstance(network, Eagle3Network):
        known = torch.zeros(vocabulary, dtype=torch.bool)
        known[ids] = True
        tensors |= {"d2t": ids - torch.arange(len(ids)), "t2d": known}
    elif len(ids) < vocabulary:
        tensors["draft_vocab"] = ids.int()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.safetensors"
    save_file(tensors, file, metadata={"format": "pt"})
    file.chmod(0o644)  # the library makes it private; a head is for everybody
    config = _config(network, shape, len(ids), vocabulary, context)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def _config(
    network: DraftNetwork, shape: HeadShape, draft_vocabulary: int, vocabulary: int, context: int
) -> dict[str, Any]:
    """The fields that other loaders look for as well."""
    eagle3 = isinstance(network, Eagle3Network)
    inner, hidden = next(
        tensor.shape for name, tensor in network.named_parameters() if name.endswith("gate_proj.weight")
    )
    return {
        "architectures": ["LlamaForCausalLMEagle3" if eagle3 else "LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_theta": shape.rope_theta,
        "max_position_embeddings": context,
        "vocab_size": vocabulary,
        "draft_vocab_size": draft_vocabulary,
        "bias": not eagle3,
        "tie_word_embeddings": not eagle3,
        "torch_dtype": "bfloat16",
    }
