"""Turns a GGUF file into a folder transformers loads: tensors, config, tokenizer, chat template.

For Llama's architecture and those close to it (`gguf_config`). Memory stays small: rows are read, dequantized
and written a piece at a time, into one file in the safetensors format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle_chat.errors import UsageError
from eagle_chat.events import Loading
from eagle_chat.gguf_config import ROPE_FACTORS, config_of, stored_dtype
from eagle_chat.gguf_file import GgufFile, Tensor, read_gguf
from eagle_chat.gguf_tokenizer import check_tokenizer, write_tokenizer

if TYPE_CHECKING:
    import torch
    from numpy import ndarray

NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
SKIPPED = (ROPE_FACTORS,)  # it is in the config
INTERLEAVED = ("llama",)  # architectures whose queries and keys GGUF has in another order
STORED = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}  # in words of safetensors
PIECE = 1 << 22  # numbers that are dequantized at once


def convert(path: Path, folder: Path, label: str, progress: Callable[[Loading], None]) -> None:
    """Writes the model into `folder`, which must be empty or absent. Raises EagleChatError or OSError."""
    progress(Loading(f"converting {label}"))
    gguf = read_gguf(path)
    check_convertible(gguf)
    config = config_of(gguf)
    folder.mkdir(parents=True, exist_ok=True)
    _write_tensors(gguf, config, folder, Loading(f"converting {label}"), progress)
    write_tokenizer(gguf, folder)
    _write_json(folder / "config.json", config)
    stops = {key: config[key] for key in config if key.endswith("_token_id")}
    _write_json(folder / "generation_config.json", stops)


def check_convertible(gguf: GgufFile) -> None:
    """Raises UsageError with one sentence, before anything is written."""
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

    config_of(gguf)
    check_tokenizer(gguf)
    for kind in {tensor.kind for tensor in gguf.tensors} - {"F32", "F16"}:
        number = GGMLQuantizationType[kind]
        try:
            dequantize(np.zeros((1, GGML_QUANT_SIZES[number][1]), np.uint8), number)
        except NotImplementedError:
            raise UsageError(
                f"{gguf.path} has weights in {kind}, which cannot be dequantized here: choose another of "
                "the model's files, such as Q4_K_M, Q8_0 or F16."
            ) from None


def _write_tensors(
    gguf: GgufFile,
    config: dict[str, Any],
    folder: Path,
    report: Loading,
    progress: Callable[[Loading], None],
) -> None:
    tensors = [tensor for tensor in gguf.tensors if tensor.name not in SKIPPED]
    turned = config["head_dim"] if gguf.architecture in INTERLEAVED else None
    header = json.dumps(_header(gguf, tensors)).encode()
    header += b" " * (-len(header) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for i, tensor in enumerate(tensors):
            progress(Loading(report.stage, i, len(tensors)))
            for piece in _pieces(gguf, tensor, turned):
                file.write(_bytes(piece, config["dtype"]))
    progress(Loading(report.stage, len(tensors), len(tensors)))


def _header(gguf: GgufFile, tensors: list[Tensor]) -> dict[str, Any]:
    """Of a safetensors file: what every tensor is, and where."""
    dtype, end = STORED[stored_dtype(gguf)], 0
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    for tensor in tensors:
        start, end = end, end + prod(tensor.shape) * (4 if dtype == "F32" else 2)
        name = _tensor_name(gguf, tensor.name)
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [start, end]}
    return header


def _pieces(gguf: GgufFile, tensor: Tensor, head_dim: int | None) -> Iterator[ndarray]:
    """Rows in fp32, as many at a time as make up a piece, and no head cut."""
    import numpy as np
    from gguf import GGMLQuantizationType, dequantize

    rows = tensor.shape[0] if len(tensor.shape) > 1 else 1
    stored = np.memmap(gguf.path, mode="r", offset=tensor.start, shape=(rows, tensor.size // rows))
    kind = GGMLQuantizationType[tensor.kind]
    whole = {"F32": np.float32, "F16": np.float16}.get(tensor.kind)
    turned = head_dim if re.search(r"attn_[qk]\.", tensor.name) else None
    step = max(1, PIECE // (prod(tensor.shape) // rows))
    step = rows if rows == 1 else -(-step // head_dim) * head_dim if head_dim else step
    for start in range(0, rows, step):
        data = stored[start : start + step]
        piece = data.view(whole) if whole else dequantize(data, kind)
        yield _half_split(piece.reshape(-1, 1) if rows == 1 else piece, turned) if turned else piece


def _bytes(piece: ndarray, dtype: str) -> bytes:
    import torch

    number: torch.dtype = getattr(torch, dtype)
    return torch.from_numpy(piece.copy()).to(number).view(torch.uint8).numpy().tobytes()


def _tensor_name(gguf: GgufFile, name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if layer and layer[2] in LAYER_NAMES:
        return f"model.layers.{layer[1]}.{LAYER_NAMES[layer[2]]}.{layer[3]}"
    if name.removesuffix(".weight") in NAMES:
        return f"{NAMES[name.removesuffix('.weight')]}.weight"
    raise UsageError(
        f"{gguf.path} has a tensor that no model of the architecture {gguf.architecture} has ({name}): use "
        "the model's folder of safetensors files."
    )


def _half_split(weight: ndarray, head_dim: int) -> ndarray:
    """Undoes GGUF's interleaving of the two halves that rotary embedding turns against each other."""
    pairs = weight.reshape(-1, head_dim // 2, 2, weight.shape[1])  # [heads, head_dim / 2, 2, H]
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
