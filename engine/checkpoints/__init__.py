"""Draft heads on disk: recognised by their tensors, loaded strictly by name and shape."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from engine.checkpoints import eagle2, eagle3
from engine.checkpoints.files import read_config, read_tensors
from engine.drafters.eagle3_head import Eagle3Head
from engine.drafters.eagle_head import EagleHead
from engine.errors import CheckpointError
from engine.target import Target


def load_eagle_head(folder: Path, target: Target, target_name: str) -> EagleHead | Eagle3Head:
    """The head in `folder`, of whichever kind it is, in the target's dtype and on its device.

    Raises CheckpointError, or CorruptFileError for a damaged file, with one sentence that says what is wrong.
    """
    config = read_config(folder)
    tensors, file = read_tensors(folder)
    layout = {"eagle2": eagle2, "eagle3": eagle3}[_recognise(tensors, file)]
    return layout.load(tensors, config, file, target, target_name)


def recognise_head(folder: Path) -> str:
    """The method id that the head in `folder` was made for: eagle2 (EAGLE-1 heads too) or eagle3.

    Raises as `load_eagle_head` does, which still has to check whether it fits a target.
    """
    return _recognise(*read_tensors(folder))


def _recognise(tensors: dict[str, Tensor], file: Path) -> str:
    if "d2t" in tensors or any(name.startswith("midlayer.") for name in tensors):
        return "eagle3"
    fc = tensors.get("fc.weight")
    if fc is None or fc.dim() != 2 or not any(name.startswith("layers.0.") for name in tensors):
        names = ", ".join(sorted(tensors)[:4])
        raise CheckpointError(
            f"{file} is not an EAGLE head: fc.weight and layers.0.* or midlayer.* expected, {names}, … found"
        )
    return "eagle2"
