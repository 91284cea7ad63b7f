"""The layout of EAGLE-1/2: `fc`, one layer `layers.0`, and an optional `draft_vocab` of our own."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from engine.checkpoints.checks import (
    Naming,
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
from engine.errors import CheckpointError
from engine.target import Target

# Biases may be there, by what the file holds and not by its config.
PUBLISHED = Naming(
    "layers.0",
    optional=frozenset({"fc.bias", *(f"layers.0.self_attn.{letter}_proj.bias" for letter in "qkv")}),
)


def load(
    tensors: dict[str, Tensor],
    config: Config,
    file: Path,
    target: Target,
    target_name: str,
    naming: Naming = PUBLISHED,
) -> EagleHead:
    """The head, if it is whole and fits `target`."""
    fc = f"{naming.fc}.weight"
    hidden, pairs = tensors[fc].shape
    check_hidden_size(hidden, file, target, target_name)
    if pairs != 2 * hidden:
        raise CheckpointError(
            f"{file}: {fc} is [{hidden}, {pairs}], an EAGLE-1/2 head has [{hidden}, {2 * hidden}]"
        )
    share_embedding(tensors, config, file, target, target_name)
    draft_vocab = draft_vocabulary(tensors.pop("draft_vocab", None), target, file)
    required = {fc, *layer_names(naming.layer), *naming.required}
    check_names(tensors, required, {*naming.optional}, "an EAGLE-1/2", file)
    shape = head_shape(config, tensors, naming.layer, file, naming.window)
    inner = len(tensors[f"{naming.layer}.mlp.gate_proj.weight"])
    shapes = layer_shapes(shape, naming.layer, inputs=hidden, hidden=hidden, inner=inner)
    check_shapes(tensors, shapes | {fc: [hidden, 2 * hidden], f"{naming.fc}.bias": [hidden]}, file)
    weight = target.lm_head.weight
    tensors = {name: tensor.to(weight.device, weight.dtype) for name, tensor in tensors.items()}
    return EagleHead(
        shape,
        naming.as_in(PUBLISHED, tensors),
        target.embedding,
        target.lm_head,
        None if draft_vocab is None else draft_vocab.to(weight.device),
    )
