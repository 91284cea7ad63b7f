"""Tiny random Medusa and Hydra heads in the published layouts, and in our own, which shares an LM head."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaModel, PreTrainedModel

from engine import HydraHeads, MedusaHeads, Target, load_draft_head
from tests.engine.tiny import FAMILIES, HIDDEN, fill, write_head

HEADS = 4
LAYOUTS = ("published", "two-layers", "shared", "ours")
"""published: LM heads of their own; two-layers: the same after two blocks; shared: the target's LM head right
after the block; ours: a square layer before the target's LM head, bf16, and a draft_vocab.
"""
HYDRA_LAYOUTS = ("plus-plus", *LAYOUTS)
"""And plus-plus: Hydra++ with two blocks, whose names count the dropouts between."""
PREFIX = "prefix_embeding_layer"


def medusa_tensors(layout: str, vocabulary: int, seed: int = 5) -> dict[str, Tensor]:
    """Random weights under the published names."""
    layers = 2 if layout == "two-layers" else 1
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(HEADS):
        for layer in range(layers):
            shapes |= {f"{head}.{layer}.linear.weight": (HIDDEN, HIDDEN)}
            shapes |= {f"{head}.{layer}.linear.bias": (HIDDEN,)}
        if layout in ("published", "two-layers"):
            shapes |= {f"{head}.{layers}.weight": (vocabulary, HIDDEN)}
    return _filled(layout, shapes, "", vocabulary, seed)


def hydra_tensors(layout: str, vocabulary: int, seed: int = 6) -> dict[str, Tensor]:
    """Random weights under the published names; those of the layer of Hydra++ are `prefix_tensors`."""
    plus_plus = layout == "plus-plus"
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(HEADS):
        first, second = (f"hydra_mlp.{head}.{number}" for number in ((1, 3) if plus_plus else (0, 1)))
        for part in ("linear", "res_connection"):
            shapes |= {f"{first}.{part}.weight": (HIDDEN, (head + 2) * HIDDEN)}
            shapes |= {f"{first}.{part}.bias": (HIDDEN,)}
        if layout in ("two-layers", "plus-plus"):
            shapes |= {f"{second}.linear.weight": (HIDDEN, HIDDEN), f"{second}.linear.bias": (HIDDEN,)}
        if layout in ("published", "two-layers", "plus-plus"):
            name = f"hydra_lm_head.{head}.1" if plus_plus else f"hydra_lm_head.{head}"
            shapes |= {f"{name}.weight": (vocabulary, HIDDEN), f"{name}.bias": (vocabulary,)}
    return _filled(layout, shapes, "hydra_mlp.", vocabulary, seed)


def prefix_model(model: PreTrainedModel) -> LlamaModel:
    """The layer of Hydra++, which has the target's shape."""
    known = model.config.to_dict()
    names = ("num_attention_heads", "num_key_value_heads", "rms_norm_eps", "rope_parameters", "vocab_size")
    shape = {name: known[name] for name in names}
    config = LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_hidden_layers=1,
        head_dim=known.get("head_dim") or HIDDEN // known["num_attention_heads"],
        **shape,
    )
    prefix = LlamaModel(config)
    fill(prefix, seed=8)
    return prefix.eval()


def write_medusa(folder: Path, layout: str, model: PreTrainedModel) -> Path:
    """A checkpoint folder; the published config says two heads, whatever there are."""
    config: dict[str, object] = {"medusa_num_heads": 2, "base_model_name_or_path": "tiny"}
    tensors = medusa_tensors(layout, model.config.vocab_size)
    return _write(folder, config, tensors, "medusa_lm_head.pt" if layout == "published" else None)


def write_hydra(folder: Path, layout: str, model: PreTrainedModel) -> Path:
    """A checkpoint folder; the published file has a copy of the target's embedding."""
    config: dict[str, object] = {
        "hydra_num_heads": HEADS,
        "hydra_num_layers": 2 if layout in ("two-layers", "plus-plus") else 1,
        "hydra_head_arch": "prefix-mlp" if layout == "plus-plus" else "mlp",
        "grounded_heads": True,
        "hidden_state_offset": 0,
    }
    tensors = hydra_tensors(layout, model.config.vocab_size)
    if layout == "published":
        tensors["input_embed_fn.weight"] = model.get_input_embeddings().weight.detach().clone()
    if layout == "plus-plus":
        tensors |= {f"{PREFIX}.{name}": tensor for name, tensor in prefix_model(model).state_dict().items()}
    return _write(folder, config, tensors, "hydra_lm_head.pt" if layout == "published" else None)


def load_medusa(folder: Path, name: str, target: Target) -> MedusaHeads:
    """Each tiny model has a layout of its own."""
    layout = LAYOUTS[FAMILIES.index(name) % len(LAYOUTS)]
    head = load_draft_head(write_medusa(folder, layout, target.model), target, name)
    assert isinstance(head, MedusaHeads)
    return head


def load_hydra(folder: Path, name: str, target: Target) -> HydraHeads:
    """Each tiny model has a layout of its own."""
    layout = HYDRA_LAYOUTS[FAMILIES.index(name) % len(HYDRA_LAYOUTS)]
    head = load_draft_head(write_hydra(folder, layout, target.model), target, name)
    assert isinstance(head, HydraHeads)
    return head


def _filled(
    layout: str, shapes: dict[str, tuple[int, ...]], prefix: str, vocabulary: int, seed: int
) -> dict[str, Tensor]:
    """Random numbers, and what only our own layout has."""
    if layout == "ours":
        for head in range(HEADS):
            shapes |= {f"{prefix}{head}.to_lm_head.weight": (HIDDEN, HIDDEN)}
            shapes |= {f"{prefix}{head}.to_lm_head.bias": (HIDDEN,)}
    random = torch.Generator().manual_seed(seed)
    tensors = {name: 0.2 * torch.randn(shape, generator=random) for name, shape in shapes.items()}
    if layout == "ours":
        tensors = {name: tensor.bfloat16() for name, tensor in tensors.items()}
        ids = torch.randperm(vocabulary, generator=random)[:40].sort().values
        tensors["draft_vocab"] = ids.to(torch.int32)
    return tensors


def _write(folder: Path, config: dict[str, object], tensors: dict[str, Tensor], binary: str | None) -> Path:
    """With the file of a published head, where that is wanted."""
    write_head(folder, config, tensors, binary=binary is not None)
    if binary:
        (folder / "pytorch_model.bin").rename(folder / binary)
    return folder
