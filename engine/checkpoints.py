"""Draft heads on disk: recognised by their tensors, loaded strictly by name and shape.

The raw config.json is read here and nowhere else: a head's layer has its own kv heads, rope base and epsilon,
and transformers' config classes rename or default those fields.
"""

from __future__ import annotations

import json
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from engine.drafters.eagle_head import EagleHead, HeadShape
from engine.errors import CheckpointError, CorruptFileError
from engine.target import StockTarget

FILES = ("model.safetensors", "pytorch_model.bin")


def load_eagle_head(folder: Path, target: StockTarget, target_name: str) -> EagleHead:
    """The EAGLE-1/2 head in `folder`, in the target's dtype and on its device."""
    config = _read_config(folder / "config.json")
    tensors, file = _read_tensors(folder)
    _require_eagle2(tensors, file)
    _check_fit(tensors, file, target, target_name)
    shape = _head_shape(config, tensors, file)
    draft_vocab = _draft_vocab(tensors.pop("draft_vocab", None), target, file)
    tensors.pop("embed_tokens.weight", None)  # a copy of the target's, which is shared instead
    _check_tensors(tensors, _expected_shapes(shape, tensors), file)
    weight = target.lm_head.weight
    return EagleHead(
        shape,
        {name: tensor.to(weight.device, weight.dtype) for name, tensor in tensors.items()},
        target.embedding,
        target.lm_head,
        None if draft_vocab is None else draft_vocab.to(weight.device),
    )


def _read_config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{file} is missing: a draft head is a folder with config.json and weights"
        ) from None
    except (ValueError, OSError) as error:
        raise CorruptFileError(f"{file} cannot be read as JSON ({error}): fetch the head again") from None
    if not isinstance(config, dict):
        raise CorruptFileError(f"{file} holds no JSON object: fetch the head again")
    return config


def _read_tensors(folder: Path) -> tuple[dict[str, Tensor], Path]:
    file = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if file is None:
        raise CheckpointError(f"{folder} has neither {' nor '.join(FILES)}: give a folder with a draft head")
    try:
        if file.suffix == ".safetensors":
            return load_file(file), file
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except (SafetensorError, UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CorruptFileError(f"{file} cannot be read ({reason}): fetch the head again") from None
    if not isinstance(loaded, dict) or not all(isinstance(tensor, Tensor) for tensor in loaded.values()):
        raise CheckpointError(f"{file} is not a table of tensors: give a folder with a draft head")
    return loaded, file


def _require_eagle2(tensors: dict[str, Tensor], file: Path) -> None:
    if "d2t" in tensors or any(name.startswith("midlayer.") for name in tensors):
        raise CheckpointError(
            f"{file} is an EAGLE-3 head, which is not supported yet: give an EAGLE-1 or EAGLE-2 head"
        )
    fc = tensors.get("fc.weight")
    if fc is None or not any(name.startswith("layers.0.") for name in tensors):
        names = ", ".join(sorted(tensors)[:4])
        raise CheckpointError(
            f"{file} is not an EAGLE-1/2 head: fc.weight and layers.0.* expected, {names}, … found"
        )


def _check_fit(tensors: dict[str, Tensor], file: Path, target: StockTarget, target_name: str) -> None:
    """Hidden size and vocabulary decide whether a head belongs to a target."""
    hidden, pairs = (*tensors["fc.weight"].shape, 0)[:2]
    if hidden != target.hidden_size:
        raise CheckpointError(
            f"the head {file.parent} was made for a hidden size of {hidden}, but {target_name} has "
            f"{target.hidden_size}: choose the head of this model"
        )
    if pairs != 2 * hidden:
        raise CheckpointError(
            f"{file}: fc.weight is [{hidden}, {pairs}], an EAGLE-1/2 head has [{hidden}, {2 * hidden}]"
        )
    embedding = tensors.get("embed_tokens.weight")
    if embedding is not None and embedding.shape != target.embedding.weight.shape:
        raise CheckpointError(
            f"the head {file.parent} has an embedding of {list(embedding.shape)}, but {target_name} has "
            f"{list(target.embedding.weight.shape)}: choose the head of this model"
        )


def _head_shape(config: dict[str, Any], tensors: dict[str, Tensor], file: Path) -> HeadShape:
    """Head counts from config.json, the head dimension from the tensors."""
    heads = config.get("num_attention_heads")
    if not isinstance(heads, int) or heads < 1:
        raise CheckpointError(
            f"{file.parent / 'config.json'} gives no num_attention_heads: fetch the head again"
        )
    kv_heads = config.get("num_key_value_heads") or heads
    rows = [len(tensors.get(f"layers.0.self_attn.{p}_proj.weight", ())) for p in "qk"]
    head_dim = config.get("head_dim") or rows[0] // heads
    if rows != [heads * head_dim, kv_heads * head_dim] or head_dim % 2:
        raise CheckpointError(
            f"{file}: q_proj and k_proj have {rows[0]} and {rows[1]} rows, which does not fit the "
            f"{heads} heads and {kv_heads} kv heads of its config.json: fetch the head again"
        )
    scaling = config.get("rope_scaling") or {}
    if scaling.get("type", scaling.get("rope_type", "default")) != "default":
        raise CheckpointError(
            f"{file.parent / 'config.json'}: rope_scaling {scaling} is not supported for draft heads"
        )
    parameters = config.get("rope_parameters") or {}
    return HeadShape(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        rope_theta=float(config.get("rope_theta") or parameters.get("rope_theta") or 10000.0),
    )


def _draft_vocab(ids: Tensor | None, target: StockTarget, file: Path) -> Tensor | None:
    """Target ids a head may propose, sorted; None for all."""
    if ids is None:
        return None
    ids = ids.long()
    sound = ids.dim() == 1 and len(ids) > 0 and bool((ids[1:] > ids[:-1]).all())
    if not sound or ids[0] < 0 or ids[-1] >= target.vocabulary:
        raise CheckpointError(
            f"{file}: draft_vocab must be sorted token ids below {target.vocabulary}, each once"
        )
    return ids


def _expected_shapes(shape: HeadShape, tensors: dict[str, Tensor]) -> dict[str, list[int]]:
    """Every tensor of the layout by name; biases of fc, q, k and v where the file has them."""
    hidden = len(tensors["fc.weight"])
    inner = len(tensors.get("layers.0.mlp.gate_proj.weight", ()))
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    expected = {
        "fc.weight": [hidden, 2 * hidden],
        "layers.0.self_attn.q_proj.weight": [q, hidden],
        "layers.0.self_attn.k_proj.weight": [kv, hidden],
        "layers.0.self_attn.v_proj.weight": [kv, hidden],
        "layers.0.self_attn.o_proj.weight": [hidden, q],
        "layers.0.mlp.gate_proj.weight": [inner, hidden],
        "layers.0.mlp.up_proj.weight": [inner, hidden],
        "layers.0.mlp.down_proj.weight": [hidden, inner],
        "layers.0.post_attention_layernorm.weight": [hidden],
    }
    biases = {
        "fc.bias": [hidden],
        "layers.0.self_attn.q_proj.bias": [q],
        "layers.0.self_attn.k_proj.bias": [kv],
        "layers.0.self_attn.v_proj.bias": [kv],
    }
    return expected | {name: size for name, size in biases.items() if name in tensors}


def _check_tensors(tensors: dict[str, Tensor], expected: dict[str, list[int]], file: Path) -> None:
    missing = sorted(expected.keys() - tensors.keys())
    if missing:
        raise CheckpointError(f"{file}: tensor {missing[0]} is missing: fetch the head again")
    surplus = sorted(tensors.keys() - expected.keys())
    if surplus:
        raise CheckpointError(f"{file}: tensor {surplus[0]} does not belong to an EAGLE-1/2 head")
    for name, size in expected.items():
        if list(tensors[name].shape) != size:
            raise CheckpointError(f"{file}: tensor {name} is {list(tensors[name].shape)}, expected {size}")
