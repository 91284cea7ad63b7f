"""Draft heads on disk: recognised by their tensors, loaded strictly by name and shape.

The raw config.json is read here and nowhere else: a head's layer has its own kv heads, rope base and epsilon,
and transformers' config classes rename or default those fields.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.drafters.eagle_head import EagleHead, HeadShape
from engine.errors import CheckpointError, CorruptFileError
from engine.target import StockTarget

FILES = ("model.safetensors", "pytorch_model.bin")

# The layout of EAGLE-1/2: these may carry a bias, by what the file holds and not by its config.
_BIASED = ("fc", *(f"layers.0.self_attn.{p}_proj" for p in "qkv"))
_PLAIN = (
    "layers.0.self_attn.o_proj",
    *(f"layers.0.mlp.{p}_proj" for p in ("gate", "up", "down")),
    "layers.0.post_attention_layernorm",
)


def load_eagle_head(folder: Path, target: StockTarget, target_name: str) -> EagleHead:
    """The EAGLE-1/2 head in `folder`, in the target's dtype and on its device."""
    config = _Config(folder / "config.json")
    tensors, file = _read_tensors(folder)
    _require_eagle2(tensors, file)
    _check_fit(tensors, config, file, target, target_name)
    draft_vocab = _draft_vocab(tensors.pop("draft_vocab", None), target, file)
    tensors.pop("embed_tokens.weight", None)  # a copy of the target's, which is shared instead
    _check_names(tensors, file)
    shape = _head_shape(config, tensors, file)
    _check_shapes(tensors, shape, file)
    weight = target.lm_head.weight
    return EagleHead(
        shape,
        {name: tensor.to(weight.device, weight.dtype) for name, tensor in tensors.items()},
        target.embedding,
        target.lm_head,
        None if draft_vocab is None else draft_vocab.to(weight.device),
    )


class _Config:
    """A head's config.json, whose fields are looked at before they are used."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            fields = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CheckpointError(
                f"{file} is missing: a draft head is a folder with config.json and weights"
            ) from None
        except (ValueError, OSError) as error:
            raise CorruptFileError(f"{file} cannot be read as JSON ({error}): fetch the head again") from None
        if not isinstance(fields, dict):
            raise CorruptFileError(f"{file} holds no JSON object: fetch the head again")
        self._fields: dict[str, object] = fields

    def table(self, name: str) -> dict[str, object]:
        """A JSON object; empty where it is absent or null."""
        value = self._fields.get(name) or {}
        if not isinstance(value, dict):
            raise CheckpointError(f"{self.file}: {name} should be an object, not {value!r}")
        return value

    def count(self, name: str, default: int | None) -> int:
        """A whole number above 0. Without a default it must be there."""
        value = self._fields.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or value < 1:
            raise CheckpointError(f"{self.file}: {name} should be a whole number above 0, not {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        """A number above 0."""
        value = self._fields.get(name)
        value = default if value is None else value
        if not isinstance(value, int | float) or not value > 0:
            raise CheckpointError(f"{self.file}: {name} should be a number above 0, not {value!r}")
        return float(value)


def _read_tensors(folder: Path) -> tuple[dict[str, Tensor], Path]:
    file = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if file is None:
        raise CheckpointError(f"{folder} has neither {' nor '.join(FILES)}: give a folder with a draft head")
    try:
        if file.suffix == ".safetensors":
            return load_file(file), file
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception:
        raise CorruptFileError(f"{file} is no file of tensors, or damaged: fetch the head again") from None
    if not isinstance(loaded, dict) or not all(isinstance(tensor, Tensor) for tensor in loaded.values()):
        raise CheckpointError(f"{file} is not a table of tensors: give a folder with a draft head")
    return loaded, file


def _require_eagle2(tensors: dict[str, Tensor], file: Path) -> None:
    if "d2t" in tensors or any(name.startswith("midlayer.") for name in tensors):
        raise CheckpointError(
            f"{file} is an EAGLE-3 head, which is not supported yet: give an EAGLE-1 or EAGLE-2 head"
        )
    fc = tensors.get("fc.weight")
    if fc is None or fc.dim() != 2 or not any(name.startswith("layers.0.") for name in tensors):
        names = ", ".join(sorted(tensors)[:4])
        raise CheckpointError(
            f"{file} is not an EAGLE-1/2 head: fc.weight and layers.0.* expected, {names}, … found"
        )


def _check_fit(
    tensors: dict[str, Tensor], config: _Config, file: Path, target: StockTarget, target_name: str
) -> None:
    """Hidden size and vocabulary decide whether a head belongs to a target."""
    hidden, pairs = tensors["fc.weight"].shape
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
    vocabulary = config.count("vocab_size", target.vocabulary)
    if embedding is None and vocabulary != target.vocabulary:
        raise CheckpointError(
            f"the head {file.parent} was made for a vocabulary of {vocabulary}, but {target_name} has "
            f"{target.vocabulary}: choose the head of this model"
        )
    if embedding is not None and embedding.shape != target.embedding.weight.shape:
        raise CheckpointError(
            f"the head {file.parent} has an embedding of {list(embedding.shape)}, but {target_name} has "
            f"{list(target.embedding.weight.shape)}: choose the head of this model"
        )


def _head_shape(config: _Config, tensors: dict[str, Tensor], file: Path) -> HeadShape:
    """Head counts from config.json, the head dimension from there or the tensors."""
    heads = config.count("num_attention_heads", None)
    kv_heads = config.count("num_key_value_heads", heads)
    rows = [len(tensors[f"layers.0.self_attn.{p}_proj.weight"]) for p in "qk"]
    head_dim = config.count("head_dim", max(1, rows[0] // heads))
    if rows != [heads * head_dim, kv_heads * head_dim] or head_dim % 2 or heads % kv_heads:
        raise CheckpointError(
            f"{file}: q_proj and k_proj have {rows[0]} and {rows[1]} rows, which does not fit the "
            f"{heads} heads and {kv_heads} kv heads of its config.json: fetch the head again"
        )
    scaling, parameters = config.table("rope_scaling"), config.table("rope_parameters")
    for table in (scaling, parameters):
        if table.get("type", table.get("rope_type", "default")) != "default":
            raise CheckpointError(f"{config.file}: rope_scaling {table} is not supported for draft heads")
    base = parameters.get("rope_theta")
    return HeadShape(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        rms_norm_eps=config.number("rms_norm_eps", 1e-6),
        rope_theta=config.number("rope_theta", base if isinstance(base, int | float) else 10000.0),
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


def _check_names(tensors: dict[str, Tensor], file: Path) -> None:
    """Every tensor of the layout is there, and nothing else."""
    required = {f"{name}.weight" for name in (*_BIASED, *_PLAIN)}
    for name, tensor in tensors.items():
        if tensor.dim() == 0:
            raise CheckpointError(f"{file}: tensor {name} is a single number: fetch the head again")
    missing = sorted(required - tensors.keys())
    if missing:
        raise CheckpointError(f"{file}: tensor {missing[0]} is missing: fetch the head again")
    surplus = sorted(tensors.keys() - required - {f"{name}.bias" for name in _BIASED})
    if surplus:
        raise CheckpointError(f"{file}: tensor {surplus[0]} does not belong to an EAGLE-1/2 head")


def _check_shapes(tensors: dict[str, Tensor], shape: HeadShape, file: Path) -> None:
    hidden, inner = len(tensors["fc.weight"]), len(tensors["layers.0.mlp.gate_proj.weight"])
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention, mlp = "layers.0.self_attn", "layers.0.mlp"
    expected = {
        "fc.weight": [hidden, 2 * hidden],
        "fc.bias": [hidden],
        f"{attention}.q_proj.weight": [q, hidden],
        f"{attention}.q_proj.bias": [q],
        f"{attention}.k_proj.weight": [kv, hidden],
        f"{attention}.k_proj.bias": [kv],
        f"{attention}.v_proj.weight": [kv, hidden],
        f"{attention}.v_proj.bias": [kv],
        f"{attention}.o_proj.weight": [hidden, q],
        f"{mlp}.gate_proj.weight": [inner, hidden],
        f"{mlp}.up_proj.weight": [inner, hidden],
        f"{mlp}.down_proj.weight": [hidden, inner],
        "layers.0.post_attention_layernorm.weight": [hidden],
    }
    for name, tensor in tensors.items():
        if list(tensor.shape) != expected[name]:
            raise CheckpointError(f"{file}: tensor {name} is {list(tensor.shape)}, expected {expected[name]}")
