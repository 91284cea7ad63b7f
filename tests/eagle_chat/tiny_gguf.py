"""Tiny models as GGUF files, by llama.cpp's rules: its names, its order of queries and keys, its metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, get_tensor_name_map, quants
from gguf.constants import MODEL_ARCH, MODEL_ARCH_NAMES
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

NORMAL, CONTROL, USER, UNUSED = 1, 3, 4, 5  # tokenizer.ggml.token_type


def write_model_gguf(
    path: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    matrices: GGMLQuantizationType = GGMLQuantizationType.F32,
    rule: str = "gpt-2",
    **metadata: int,
) -> Path:
    """What llama.cpp's converter would make of the model, its matrices in the type given."""
    architecture = {"mistral": "llama"}.get(model.config.model_type, model.config.model_type)
    writer = GGUFWriter(path, architecture)
    _add_sizes(writer, model.config)
    _add_tokenizer(writer, tokenizer, model.config.vocab_size, rule)
    for key, value in metadata.items():
        writer.add_uint32(key.replace("__", "."), value)
    _add_tensors(writer, model, architecture, matrices)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_sizes(writer: GGUFWriter, config: Any) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    if head_dim := getattr(config, "head_dim", None):
        writer.add_key_length(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)


def _add_tokenizer(writer: GGUFWriter, tokenizer: PreTrainedTokenizerFast, rows: int, rule: str) -> None:
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    added = {token["content"]: CONTROL if token["special"] else USER for token in parts["added_tokens"]}
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    unused = [f"[PAD{i}]" for i in range(len(tokens), rows)]
    writer.add_tokenizer_model("llama" if parts["model"]["byte_fallback"] else "gpt2")
    writer.add_tokenizer_pre(rule)
    writer.add_token_list([*tokens, *unused])
    writer.add_token_types([*(added.get(token, NORMAL) for token in tokens), *(UNUSED for _ in unused)])
    writer.add_token_merges([" ".join(merge) for merge in parts["model"]["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)


def _add_tensors(
    writer: GGUFWriter, model: PreTrainedModel, architecture: str, matrices: GGMLQuantizationType
) -> None:
    config = model.config
    arch: MODEL_ARCH = next(key for key, name in MODEL_ARCH_NAMES.items() if name == architecture)
    names = get_tensor_name_map(arch, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, _, suffix = name.rpartition(".")
        values = tensor.numpy()
        if architecture == "llama" and stem.endswith(("q_proj", "k_proj")):
            heads = config.num_attention_heads if stem.endswith("q_proj") else config.num_key_value_heads
            halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        kind = matrices if values.ndim > 1 else GGMLQuantizationType.F32
        stored = quants.quantize(np.ascontiguousarray(values), kind)
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", stored, raw_dtype=kind)
    if config.rope_parameters["rope_type"] == "llama3":
        device = torch.device("cpu")
        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, device)
        steps = torch.arange(0, 2 * len(scaled), 2) / (2 * len(scaled))
        plain = config.rope_parameters["rope_theta"] ** -steps
        writer.add_tensor("rope_freqs.weight", (plain / scaled).float().numpy())
