"""Turns SmolLM2's GGUF file into a folder transformers loads: bf16 tensors, config, tokenizer, chat template.

Not a general converter: it knows the Llama architecture and the one tokenizer kind that this file has.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from eagle_chat.events import Loading

if TYPE_CHECKING:
    from gguf import GGUFReader
    from numpy import ndarray

NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL_TOKEN = 3  # tokenizer.ggml.token_type


def convert(gguf: Path, folder: Path, label: str, progress: Callable[[Loading], None]) -> None:
    """Writes the model into `folder`, which must be empty or absent."""
    from gguf import GGUFReader

    folder.mkdir(parents=True, exist_ok=True)
    progress(Loading(f"converting {label}"))
    reader = GGUFReader(gguf)
    config = _config(reader)
    _write_tensors(reader, config, folder, Loading(f"converting {label}", 0, len(reader.tensors)), progress)
    _write_tokenizer(reader, folder)
    _write_json(folder / "config.json", config)
    stops = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write_json(folder / "generation_config.json", stops)


def _config(reader: "GGUFReader") -> dict[str, object]:
    """The GGUF metadata in transformers' words."""
    from numpy import float32

    def value(key: str) -> object:
        return reader.fields[key].contents()

    def decimal(key: str) -> float:
        return float(str(float32(str(value(key)))))  # stored as fp32: 1e-05, not 9.999999747378752e-06

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": value("llama.embedding_length"),
        "intermediate_size": value("llama.feed_forward_length"),
        "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": value("llama.attention.head_count"),
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "head_dim": value("llama.rope.dimension_count"),
        "hidden_act": "silu",
        "max_position_embeddings": value("llama.context_length"),
        "rms_norm_eps": decimal("llama.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_theta": decimal("llama.rope.freq_base"), "rope_type": "default"},
        "vocab_size": value("llama.vocab_size"),
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in reader.tensors),
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
        "dtype": "bfloat16",
    }


def _write_tensors(
    reader: "GGUFReader",
    config: dict[str, object],
    folder: Path,
    report: Loading,
    progress: Callable[[Loading], None],
) -> None:
    import torch
    from gguf.quants import dequantize
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    head_dim = config["head_dim"]
    assert isinstance(head_dim, int)
    tensors = {}
    for i, tensor in enumerate(reader.tensors):
        progress(Loading(report.stage, i, report.total))
        name = _tensor_name(tensor.name)
        weight = dequantize(tensor.data, tensor.tensor_type)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            weight = _half_split(weight, head_dim)
        tensors[name] = torch.from_numpy(weight.copy()).to(torch.bfloat16)
    try:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(str(error)) from error  # it carries the system's error, but as text and by another name
    progress(Loading(report.stage, len(reader.tensors), report.total))


def _tensor_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    if layer := re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name):
        return f"model.layers.{layer[1]}.{LAYER_NAMES[layer[2]]}.weight"
    return f"{NAMES[name.removesuffix('.weight')]}.weight"


def _half_split(weight: "ndarray", head_dim: int) -> "ndarray":
    """Undoes GGUF's interleaving of the two halves that rotary embedding turns against each other."""
    pairs = weight.reshape(-1, head_dim // 2, 2, weight.shape[1])  # [heads, head_dim / 2, 2, H]
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _write_tokenizer(reader: "GGUFReader", folder: Path) -> None:
    """A byte-level BPE in the `tokenizers` format; `smollm` means every digit alone, then GPT-2's rule."""

    def value(key: str) -> object:
        return reader.fields[f"tokenizer.{key}"].contents()

    kind = (value("ggml.model"), value("ggml.pre"))
    assert kind == ("gpt2", "smollm"), f"unexpected tokenizer {kind}"
    tokens, types, merges = value("ggml.tokens"), value("ggml.token_type"), value("ggml.merges")
    assert isinstance(tokens, list)
    assert isinstance(types, list)
    assert isinstance(merges, list)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
    control = [i for i, kind in enumerate(types) if kind == CONTROL_TOKEN]
    _write_json(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "added_tokens": [{"id": i, "content": tokens[i], **special} for i in control],
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
            },
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "vocab": {token: i for i, token in enumerate(tokens)},
                "merges": [merge.split(" ") for merge in merges],
            },
        },
    )
    roles = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    named = {f"{role}_token": tokens[int(str(value(f"ggml.{key}_token_id")))] for role, key in roles.items()}
    _write_json(
        folder / "tokenizer_config.json",
        named
        | {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": reader.fields["llama.context_length"].contents(),
            "clean_up_tokenization_spaces": False,
        },
    )
    (folder / "chat_template.jinja").write_text(str(value("chat_template")), encoding="utf-8", newline="\n")


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
