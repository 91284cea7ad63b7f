"""Loading a target from a folder of weights: dtype, device, and one sentence where that cannot work."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from engine.errors import LoadError

DtypeName = Literal["auto", "bf16", "fp16", "fp32"]
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def pick_device(name: str = "auto") -> torch.device:
    """`auto` is the first CUDA GPU, else the CPU. Raises LoadError for a device this machine lacks."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise LoadError(f"device {name!r} cannot be used here ({reason}): try --device cpu") from None
    return device


def pick_dtype(name: DtypeName, device: torch.device) -> torch.dtype:
    """`auto` is bf16 where the hardware multiplies it, else fp16 on a GPU and fp32 on a CPU."""
    if name != "auto":
        return DTYPES[name]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if device.type == "cpu":
        return torch.bfloat16 if _cpu_multiplies_bf16() else torch.float32
    return torch.float16


def load_model(folder: Path, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """The causal LM in `folder`, for SDPA. Raises LoadError."""
    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
        return model.to(device).eval()
    except torch.OutOfMemoryError:
        raise LoadError(
            f"{folder.name} does not fit into the memory of {device}: choose a smaller model"
        ) from None
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise LoadError(f"the model in {folder} cannot be loaded ({reason})") from error


def _cpu_multiplies_bf16() -> bool:
    """AVX512-BF16 or AMX; elsewhere bf16 products are emulated and slower than fp32."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
