"""Tiny checkpoints in exactly the layout of published ones: file names, tensor names, config fields, dtypes.

Written from what is known of the repositories; the numbers are shrunk, the weights random.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from tests.eagle_chat.tiny_model import (
    LLAMA_2,
    LLAMA_3,
    byte_level,
    head_config,
    head_tensors,
    make_model,
    sentence_piece,
    write_head,
)

_SHRUNK = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
_COMMON = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "model_type": "llama",
    "tie_word_embeddings": False,
    "use_cache": True,
}


def write_llama_3(folder: Path) -> tuple[Path, Path]:
    """meta-llama/Meta-Llama-3-8B-Instruct and yuhuili/EAGLE-LLaMA3-Instruct-8B.

    Four bf16 safetensors shards, tokenizer.json only, its template in tokenizer_config.json, two stop tokens
    of which the tokenizer lists one; the head without a bias and with a rope base of its own.
    """
    names = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|end_of_text|>")
    tokenizer = byte_level(LLAMA_3, names)
    model = make_model(tokenizer)
    ids = tokenizer.convert_tokens_to_ids(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    target = folder / "Meta-Llama-3-8B-Instruct"
    config = {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": ids[0],
        "eos_token_id": ids[2],
        "max_position_embeddings": 8192,
        "num_key_value_heads": 2,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": 500000.0,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.40.0.dev0",
    }
    generation = {
        "bos_token_id": ids[0],
        "eos_token_id": ids[1:],
        "do_sample": True,
        "temperature": 0.6,
        "top_p": 0.9,
    }
    _write_target(target, model, config, generation)
    _write_tokenizer(
        target, tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": LLAMA_3}
    )
    _write_shards(target, _weights(model, torch.bfloat16), 4, binary=False)
    config = head_config(model, max_position_embeddings=2048, pretraining_tp=1, torch_dtype="float16")
    tensors = head_tensors(model) | {"embed_tokens.weight": model.get_input_embeddings().weight.detach()}
    tensors = {name: tensor.half() for name, tensor in tensors.items()}
    return target, write_head(folder / "EAGLE-LLaMA3-Instruct-8B", config, tensors, binary=True)


def write_llama_2(folder: Path) -> tuple[Path, Path]:
    """meta-llama/Llama-2-7b-chat-hf and yuhuili/EAGLE-llama2-chat-7B.

    Two fp16 safetensors shards that carry rotary buffers, both tokenizer files, sampling defaults in its
    generation config (which must not sample here); the head in fp32 with fc.bias and a copy of the embedding.
    """
    tokenizer = sentence_piece()
    model = make_model(tokenizer, num_key_value_heads=4)
    target = folder / "Llama-2-7b-chat-hf"
    config = {
        "_name_or_path": "meta-llama/Llama-2-7b-chat-hf",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "max_position_embeddings": 4096,
        "num_key_value_heads": 4,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "torch_dtype": "float16",
        "transformers_version": "4.32.0.dev0",
    }
    sampling = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "max_length": 4096, "pad_token_id": 0}
    _write_target(target, model, config, {"bos_token_id": 1, "eos_token_id": 2, **sampling})
    _write_tokenizer(target, tokenizer, _LLAMA_TOKENIZER | {"chat_template": LLAMA_2, "legacy": False})
    (target / "tokenizer.model").write_bytes(sentence_piece_file(tokenizer))
    _write_shards(target, _weights(model, torch.float16, rotary=True), 2, binary=False)
    return target, _write_old_head(folder / "EAGLE-llama2-chat-7B", model, max_position_embeddings=4096)


def write_vicuna(folder: Path, tokenizer_json: bool = True) -> tuple[Path, Path]:
    """lmsys/vicuna-7b-v1.3 and yuhuili/EAGLE-Vicuna-7B-v1.3.

    Two fp16 .bin shards with rotary buffers, no chat template, and in truth tokenizer.model alone, which
    takes the packages sentencepiece and protobuf to read; the head's config has no kv heads and no rope base.
    """
    tokenizer = sentence_piece(template=None)
    model = make_model(tokenizer, num_key_value_heads=4)
    target = folder / "vicuna-7b-v1.3"
    config = {
        "_name_or_path": "vicuna-7b-v1.3",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "max_position_embeddings": 2048,
        "pad_token_id": 0,
        "rms_norm_eps": 1e-06,
        "torch_dtype": "float16",
        "transformers_version": "4.28.1",
    }
    generation = {"_from_model_config": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    _write_target(target, model, config, generation)
    _write_tokenizer(target, tokenizer, _LLAMA_TOKENIZER)
    (target / "tokenizer.model").write_bytes(sentence_piece_file(tokenizer))
    if not tokenizer_json:
        (target / "tokenizer.json").unlink()
    _write_shards(target, _weights(model, torch.float16, rotary=True), 2, binary=True)
    return target, _write_old_head(folder / "EAGLE-Vicuna-7B-v1.3", model, max_position_embeddings=2048)


def _added(content: str) -> dict[str, Any]:
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    return {"__type": "AddedToken", "content": content, **flags}


_LLAMA_TOKENIZER = {
    "add_bos_token": True,
    "add_eos_token": False,
    "bos_token": _added("<s>"),
    "clean_up_tokenization_spaces": False,
    "eos_token": _added("</s>"),
    "model_max_length": 1000000000000000019884624838656,
    "pad_token": None,
    "sp_model_kwargs": {},
    "tokenizer_class": "LlamaTokenizer",
    "unk_token": _added("<unk>"),
}


def _write_target(
    folder: Path, model: PreTrainedModel, config: dict[str, Any], generation: dict[str, Any]
) -> None:
    folder.mkdir(parents=True)
    whole = _COMMON | _SHRUNK | {"vocab_size": model.config.vocab_size} | config
    (folder / "config.json").write_text(json.dumps(whole, indent=2))
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2))


def _write_tokenizer(folder: Path, tokenizer: PreTrainedTokenizerFast, config: dict[str, Any]) -> None:
    """tokenizer.json with a tokenizer_config.json of the time."""
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos_token": tokenizer.bos_token, "eos_token": tokenizer.eos_token}
    (folder / "tokenizer_config.json").write_text(json.dumps(special | config, indent=2))
    (folder / "special_tokens_map.json").write_text(json.dumps(special, indent=2))


def _weights(model: PreTrainedModel, dtype: torch.dtype, rotary: bool = False) -> dict[str, Tensor]:
    weights = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    if rotary:  # once a buffer that was saved
        frequencies = 1 / 10000 ** (torch.arange(0, 8, 2) / 8)
        layers = range(model.config.num_hidden_layers)
        weights |= {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": frequencies.clone() for i in layers}
    return weights


def _write_shards(folder: Path, weights: dict[str, Tensor], count: int, *, binary: bool) -> None:
    stem, suffix = ("pytorch_model", "bin") if binary else ("model", "safetensors")
    names = list(weights)
    place = {
        name: f"{stem}-{1 + i * count // len(names):05d}-of-{count:05d}.{suffix}"
        for i, name in enumerate(names)
    }
    for file in sorted(set(place.values())):
        part = {name: weights[name].contiguous() for name in names if place[name] == file}
        if binary:
            torch.save(part, folder / file)
        else:
            save_file(part, folder / file, metadata={"format": "pt"})
    size = sum(tensor.nbytes for tensor in weights.values())
    index = {"metadata": {"total_size": size}, "weight_map": place}
    (folder / f"{stem}.{suffix}.index.json").write_text(json.dumps(index, indent=2))


def _write_old_head(folder: Path, model: PreTrainedModel, **fields: Any) -> Path:
    """Vicuna's and Llama 2's: fp32, fc.bias, the embedding; kv heads and rope base left to their defaults."""
    config = head_config(model, **fields, rms_norm_eps=1e-06, torch_dtype="float16", pad_token_id=0)
    for absent in ("bias", "num_key_value_heads", "rope_theta"):
        del config[absent]
    tensors = head_tensors(model, kv_rows=32) | {
        "fc.bias": 0.01 * torch.randn(32, generator=torch.Generator().manual_seed(6)),
        "embed_tokens.weight": model.get_input_embeddings().weight.detach().clone(),
    }
    return write_head(folder, config, tensors, binary=True)


def sentence_piece_file(tokenizer: PreTrainedTokenizerFast) -> bytes:
    """tokenizer.model: SentencePiece's protocol buffer, written by hand as far as it is read."""
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3}  # 6: a byte, 1: a piece
    model = b""
    for piece, number in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        kind = kinds.get(piece, 6 if piece.startswith("<0x") else 1)
        score = _varint(2 << 3 | 5) + struct.pack("<f", -float(number))
        model += _field(1, _field(1, piece.encode()) + score + _number(3, kind))
    trainer = (
        _number(3, 2) + _number(35, 1) + _number(40, 0) + _number(41, 1) + _number(42, 2)
    )  # BPE, bytes, ids
    return model + _field(2, trainer) + _field(3, _field(1, b"identity") + _number(3, 1) + _number(4, 0))


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)
