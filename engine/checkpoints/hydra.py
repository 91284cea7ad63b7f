"""The layout of Hydra: `hydra_mlp.{head}.{layer}`, the first layer wider, and `hydra_lm_head.{head}`.

That of Hydra++ has a whole Llama of one layer beside them, and numbers as if a dropout were a layer.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from engine.checkpoints.checks import check_names, check_shapes, head_shape, layer_names, layer_shapes
from engine.checkpoints.files import Config
from engine.checkpoints.residual import Kind, load_heads
from engine.drafters.hydra import HydraHeads
from engine.drafters.hydra_prefix import Prefix
from engine.errors import CheckpointError
from engine.target import Target

PLAIN = Kind("a Hydra head", "hydra", "hydra_mlp.", "hydra_lm_head.{head}", lm_bias=True, reads_tokens=True)
PLUS_PLUS = replace(PLAIN, name="a Hydra++ head", lm_head="hydra_lm_head.{head}.1", dropout=True)
BLOCK = re.compile(r"hydra_mlp\.\d{1,4}\.\d{1,4}\.linear\.weight")
EMBEDDING = "input_embed_fn.weight"  # the target's: training registers it
PREFIX = "prefix_embeding_layer"  # as published
LAYER = f"{PREFIX}.layers.0"


def load(
    tensors: dict[str, Tensor], config: Config, file: Path, target: Target, target_name: str
) -> HydraHeads:
    """The heads, if they are whole and fit `target`."""
    if not any(name.endswith(".res_connection.weight") for name in tensors):
        raise CheckpointError(
            f"{file} is a Hydra head that reads no tokens (grounded_heads false), which is not supported: "
            "choose a grounded one"
        )
    if config.whole("hidden_state_offset", 0):
        raise CheckpointError(f"{config.file}: hidden_state_offset is not supported for draft heads")
    if EMBEDDING in tensors:
        tensors["embed_tokens.weight"] = tensors.pop(EMBEDDING)
    of_prefix = {name: tensors.pop(name) for name in [*tensors] if name.startswith(f"{PREFIX}.")}
    heads = load_heads(PLUS_PLUS if of_prefix else PLAIN, tensors, config, file, target, target_name)
    prefix = _load_prefix(of_prefix, file, target) if of_prefix else None
    return HydraHeads(heads, target.embedding, target.lm_head.weight.device, prefix)


def _load_prefix(tensors: dict[str, Tensor], file: Path, target: Target) -> Prefix:
    """The layer before the heads, which is shaped like one of the target's own."""
    tensors.pop(f"{LAYER}.self_attn.rotary_emb.inv_freq", None)  # older files carry what is computed
    norms = {f"{PREFIX}.norm.weight", f"{LAYER}.input_layernorm.weight"}
    embedding = f"{PREFIX}.embed_tokens.weight"  # there, and never read
    check_names(tensors, norms | layer_names(LAYER), {embedding}, PLUS_PLUS.name, file)
    config = Config(file, target.model.config.get_text_config().to_dict())
    shape, hidden = head_shape(config, tensors, LAYER, file), target.hidden_size
    inner = len(tensors[f"{LAYER}.mlp.gate_proj.weight"])
    shapes = layer_shapes(shape, LAYER, inputs=hidden, hidden=hidden, inner=inner)
    shapes |= {name: [hidden] for name in norms}
    check_shapes(tensors, shapes | {embedding: list(target.embedding.weight.shape)}, file)
    weight = target.lm_head.weight
    return Prefix(shape, {name: t.to(weight.device, weight.dtype) for name, t in tensors.items()}, PREFIX)
