"""The layout of Medusa: `{head}.{layer}.linear`, and after the layers `{head}.{layers}`, an LM head each."""

from __future__ import annotations

import re
from pathlib import Path

from torch import Tensor

from engine.checkpoints.files import Config
from engine.checkpoints.residual import Kind, load_heads
from engine.drafters.medusa import MedusaHeads
from engine.target import Target

KIND = Kind("a Medusa head", "medusa", "", "{head}.{layers}", lm_bias=False, reads_tokens=False)
BLOCK = re.compile(r"\d{1,4}\.\d{1,4}\.linear\.weight")


def load(
    tensors: dict[str, Tensor], config: Config, file: Path, target: Target, target_name: str
) -> MedusaHeads:
    """The heads, if they are whole and fit `target`."""
    heads = load_heads(KIND, tensors, config, file, target, target_name)
    return MedusaHeads(heads, target.lm_head.weight.device)
