"""Which module of a model goes to which device, as transformers is told when it loads one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from engine.errors import UnsupportedModelError


def device_map(
    folder: Path, home: torch.device, layers: Sequence[torch.device] = ()
) -> dict[str, torch.device]:
    """For the model in `folder`: a device for each of its `layers`, and home for all else.

    Every name is there: accelerate takes a module that is named for all that it holds.
    """
    if not layers:
        return {"": home}
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.ModuleList)]
    name, stack = next(((n, m) for n, m in lists if len(m) == len(layers)), ("", None))
    if stack is None:
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot be split over several devices (no list of its {len(layers)} "
            "layers was found): name one with --device"
        )
    placed = {f"{name}.{i}": device for i, device in enumerate(layers)}
    return dict.fromkeys(_beside(model, stack), home) | placed


def _beside(module: nn.Module, stack: nn.ModuleList, prefix: str = "") -> Iterator[str]:
    """Modules, weights and buffers that hold nothing of `stack`, the largest ones."""
    yield from (prefix + name for name, _ in module.named_parameters(recurse=False))
    yield from (prefix + name for name, _ in module.named_buffers(recurse=False))
    for name, child in module.named_children():
        if all(part is not stack for part in child.modules()):
            yield prefix + name
        elif child is not stack:
            yield from _beside(child, stack, f"{prefix}{name}.")
