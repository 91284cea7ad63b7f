"""The layout of EAGLE-1/2: `fc`, one layer `layers.0`, and an optional `draft_vocab` of our own."""

from __future__ import annotations

from pathlib import Path

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
from engine.checkpoints.files import Config
from engine.drafters.eagle_head import EagleHead
from engine.drafters.head_layer import HeadShape
from engine.errors import CheckpointError
from engine.target import Target

LAYER = "layers.0"
NAMES = {"fc.weight", *layer_names(LAYER)}
# These may be there, by what the file holds and not by its config.
BIASES = {"fc.bias", *(f"{LAYER}.self_attn.{p}_proj.bias" for p in "qkv")}


def load(
    tensors: dict[str, Tensor], config: Config, file: Path, target: Target, target_name: str
) -> EagleHead:
    """The head, if it is whole and fits `target`."""
    hidden, pairs = tensors["fc.weight"].shape
    check_hidden_size(hidden, file, target, target_name)
    if pairs != 2 * hidden:
        raise CheckpointError(
            f"{file}: fc.weight is [{hidden}, {pairs}], an EAGLE-1/2 head has [{hidden}, {2 * hidden}]"
        )
    share_embedding(tensors, config, file, target, target_name)
    draft_vocab = draft_vocabulary(tensors.pop("draft_vocab", None), target, file)
    check_names(tensors, NAMES, BIASES, "an EAGLE-1/2", file)
    shape = head_shape(config, tensors, LAYER, file)
    check_shapes(tensors, _shapes(tensors, shape), file)
    weight = target.lm_head.weight
    return EagleHead(
        shape,
        {name: tensor.to(weight.device, weight.dtype) for name, tensor in tensors.items()},
        target.embedding,
        target.lm_head,
        None if draft_vocab is None else draft_vocab.to(weight.device),
    )


def _shapes(tensors: dict[str, Tensor], shape: HeadShape) -> dict[str, list[int]]:
    hidden, inner = len(tensors["fc.weight"]), len(tensors[f"{LAYER}.mlp.gate_proj.weight"])
    layer = layer_shapes(shape, LAYER, inputs=hidden, hidden=hidden, inner=inner)
    q, k, v = ([layer[f"{LAYER}.self_attn.{p}_proj.weight"][0]] for p in "qkv")
    biases = {f"{LAYER}.self_attn.{p}_proj.bias": rows for p, rows in zip("qkv", (q, k, v), strict=True)}
    return {"fc.weight": [hidden, 2 * hidden], "fc.bias": [hidden]} | layer | biases
