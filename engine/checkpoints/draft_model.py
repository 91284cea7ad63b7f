"""The layout of a draft model that shares embedding and LM head with its target: a Llama's without those.

An optional `draft_vocab` of our own restricts what it can say, as in the other layouts.
"""

from __future__ import annotations

import re
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.checkpoints.checks import (
    check_hidden_size,
    check_names,
    check_shapes,
    draft_vocabulary,
    head_shape,
    layer_names,
    layer_shapes,
    share_embedding,
)
from engine.checkpoints.files import EMBEDDING, Config
from engine.drafters.shared_llama import SharedLlama
from engine.target import Target

LAYER = re.compile(r"model\.layers\.(\d{1,4})\.")
NORM = "model.norm.weight"


def is_shared(names: set[str]) -> bool:
    """Whether tensors of these names are a causal LM's that lacks an embedding."""
    return EMBEDDING not in names and any(LAYER.match(name) for name in names)


def shares_embedding(folder: Path) -> bool:
    """The same of a folder, whose tensors are not read: a whole causal LM may be large."""
    try:
        with safe_open(folder / "model.safetensors", framework="pt") as file:
            return is_shared(set(file.keys()))
    except (OSError, SafetensorError):  # in several files, or damaged: whoever loads it will say so
        return False


def load(
    tensors: dict[str, Tensor], config: Config, file: Path, target: Target, target_name: str
) -> SharedLlama:
    """The layers, if they are whole and fit `target`."""
    share_embedding(tensors, config, file, target, target_name)
    draft_vocab = draft_vocabulary(tensors.pop("draft_vocab", None), target, file)
    found = {int(match[1]) for name in tensors if (match := LAYER.match(name))}
    # What the config says counts too, as far as there can be so many: a file that ends early is not whole.
    layers = max(max(found) + 1, config.count("num_hidden_layers", 1))
    prefixes = [f"model.layers.{i}" for i in range(min(layers, len(tensors) + 1))]
    names = {NORM, *(f"{prefix}.input_layernorm.weight" for prefix in prefixes)}
    check_names(tensors, names.union(*map(layer_names, prefixes)), set(), "a draft model's", file)
    hidden = len(tensors[NORM])
    check_hidden_size(hidden, file, target, target_name)
    shape = head_shape(config, tensors, prefixes[0], file)
    inner = len(tensors[f"{prefixes[0]}.mlp.gate_proj.weight"])
    shapes = {name: [hidden] for name in names}
    for prefix in prefixes:
        shapes |= layer_shapes(shape, prefix, inputs=hidden, hidden=hidden, inner=inner)
    check_shapes(tensors, shapes, file)
    weight = target.lm_head.weight
    return SharedLlama(
        shape,
        {name: tensor.to(weight.device, weight.dtype) for name, tensor in tensors.items()},
        target.embedding,
        target.lm_head,
        config.count("max_position_embeddings", target.context),
        None if draft_vocab is None else draft_vocab.to(weight.device),
    )
