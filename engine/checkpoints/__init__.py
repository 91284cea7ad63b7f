"""Draft heads on disk: recognised by their tensors, loaded strictly by name and shape."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from torch import Tensor

from engine.checkpoints import draft_model, eagle2, eagle3, hydra, medusa, speculators
from engine.checkpoints.draft_model import shares_embedding
from engine.checkpoints.files import read_config, read_tensors, refuse_models
from engine.drafters.eagle3_head import Eagle3Head
from engine.drafters.eagle_head import EagleHead
from engine.drafters.hydra import HydraHeads
from engine.drafters.medusa import MedusaHeads
from engine.drafters.shared_llama import SharedLlama
from engine.errors import CheckpointError
from engine.target import Target

AnyHead: TypeAlias = EagleHead | Eagle3Head | MedusaHeads | HydraHeads | SharedLlama

__all__ = ["AnyHead", "load_draft_head", "load_eagle_head", "recognise_head", "shares_embedding"]

LAYOUTS = {
    "eagle2": eagle2, "eagle3": eagle3, "medusa": medusa, "hydra": hydra, "draft-model": draft_model,
}  # fmt: skip


def load_draft_head(folder: Path, target: Target, target_name: str) -> AnyHead:
    """The head in `folder`, of whichever kind it is, in the target's dtype and on its device.

    Raises CheckpointError, or CorruptFileError for a damaged file, with one sentence that says what is wrong.
    """
    config = read_config(folder)
    tensors, file = read_tensors(folder)
    if speculators.describes(config):
        return speculators.load(tensors, config, file, target, target_name)
    loaded: AnyHead = LAYOUTS[_recognise(tensors, file)].load(tensors, config, file, target, target_name)
    return loaded


def load_eagle_head(folder: Path, target: Target, target_name: str) -> EagleHead | Eagle3Head:
    """As `load_draft_head`, of the kinds that EAGLE's trees grow from."""
    head = load_draft_head(folder, target, target_name)
    if isinstance(head, MedusaHeads | HydraHeads | SharedLlama):
        raise CheckpointError(f"the head {folder} is not an EAGLE head: choose one that is")
    return head


def recognise_head(folder: Path) -> str:
    """The method id that the head in `folder` was made for; eagle2 for EAGLE-1 heads too.

    Raises as `load_draft_head` does, which still has to check whether it fits a target.
    """
    config = read_config(folder)
    if speculators.describes(config):
        return speculators.method_of(config)
    return _recognise(*read_tensors(folder))


def _recognise(tensors: dict[str, Tensor], file: Path) -> str:
    if eagle3.describes(tensors):
        return "eagle3"
    for method, layout in (("medusa", medusa), ("hydra", hydra)):
        if any(layout.BLOCK.fullmatch(name) for name in tensors):
            return method
    if draft_model.is_shared(set(tensors)):
        return "draft-model"
    refuse_models(tensors, file)
    fc = tensors.get("fc.weight")
    if fc is None or fc.dim() != 2 or not any(name.startswith("layers.0.") for name in tensors):
        names = ", ".join(sorted(tensors)[:4])
        raise CheckpointError(
            f"{file} is not a draft head: fc.weight and layers.0.* (EAGLE-1/2), midlayer.* (EAGLE-3), "
            f"0.0.linear.* (Medusa) or hydra_mlp.* (Hydra) expected, {names}, … found"
        )
    return "eagle2"
