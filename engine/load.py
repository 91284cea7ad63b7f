"""Loading a target from a folder of weights: dtype, device, and one sentence where that cannot work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from engine.device_map import device_map
from engine.errors import LoadError, SettingsError, UnsupportedModelError
from engine.lean import LeanTarget
from engine.quantized import Quantization, check_widths, keep_rows_apart, quantization_config
from engine.target import StockTarget, Target
from engine.tree_check import verifies_trees

DtypeName = Literal["auto", "bf16", "fp16", "fp32"]
TargetKind = Literal["auto", "stock", "lean"]
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def pick_device(name: str = "auto") -> torch.device:
    """`auto` is the first CUDA GPU, else the CPU. Raises SettingsError for a device this machine lacks."""
    return pick_devices(name)[0]


def pick_devices(name: str = "auto") -> list[torch.device]:
    """Those that a target may be on: every GPU where `auto` or `cuda` leaves the choice, else one device.

    Raises SettingsError for a device this machine lacks.
    """
    if name in ("auto", "cuda") and torch.cuda.device_count() > 1:
        return [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
    if name == "auto":
        return [torch.device("cuda" if torch.cuda.is_available() else "cpu")]
    try:
        device = torch.device(name)
    except RuntimeError:
        raise SettingsError(
            f"device {name!r} cannot be used here (no such name): try --device cpu, cuda, cuda:1 or mps"
        ) from None
    try:
        torch.zeros(1, device=device).item()  # "meta" is a device, but has no numbers
    except NotImplementedError:
        reason = f"this PyTorch has no {device.type}"
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0]
    else:
        return [device]
    raise SettingsError(f"device {name!r} cannot be used here ({reason}): try --device cpu")


def pick_dtype(name: DtypeName, device: torch.device) -> torch.dtype:
    """`auto` is bf16 where the hardware multiplies it, else fp16 on a GPU and fp32 on a CPU."""
    if name != "auto":
        return DTYPES[name]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if device.type == "cpu":
        return torch.bfloat16 if _cpu_multiplies_bf16() else torch.float32
    return torch.float16


def dtype_name(dtype: torch.dtype) -> str:
    """The name by which `pick_dtype` knows it."""
    return next(name for name, known in DTYPES.items() if known == dtype)


def load_model(
    folder: Path,
    dtype: torch.dtype,
    device: torch.device,
    quantization: Quantization = "none",
    layers: Sequence[torch.device] = (),
) -> PreTrainedModel:
    """The causal LM in `folder`, with SDPA where it can. Raises LoadError.

    Its `layers` may be on devices of their own; each tensor of a file goes straight to its place.
    SettingsError or UnsupportedModelError for a `quantization` that the device or the model cannot have.
    """
    logging.disable_progress_bar()
    config = quantization_config(quantization, dtype, device)
    placed = {} if config is None else {"quantization_config": config}
    try:
        if placed or layers or device.type == "cuda":
            placed["device_map"] = device_map(folder, device, layers)
        model, report = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            trust_remote_code=False,  # else it asks on standard input
            ignore_mismatched_sizes=True,  # reported here instead
            output_loading_info=True,
            **placed,
        )
        _check_complete(folder, report)
        check_widths(model)
        keep_rows_apart(model)
        model = model if placed else model.to(device)
        return model.eval().requires_grad_(False)
    except torch.OutOfMemoryError:
        raise LoadError(
            f"{folder.name} does not fit into the memory of {_names(device, layers)}: choose a smaller model"
        ) from None
    except (LoadError, UnsupportedModelError):
        raise
    except Exception as error:  # the libraries' kinds share no base, and all mean that there is no model
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        if isinstance(error, UnpicklingError):  # whose message advises to run what the file says
            reason = "its weights are no file of tensors, or damaged"
        raise LoadError(
            f"the model in {folder} cannot be loaded ({reason}): copy or download it again, or choose another"
        ) from error


def make_target(model: PreTrainedModel, kind: TargetKind = "auto") -> Target:
    """The model as a target, `auto` by our own decoder where it knows the model, else by transformers' own.

    Raises UnsupportedModelError. Our own decoder takes the model's weights over.
    """
    if kind != "stock":
        try:
            return LeanTarget(model)
        except UnsupportedModelError as error:
            if kind == "lean":
                raise UnsupportedModelError(f"{error}: use --target stock") from None
    target = StockTarget(model)
    target.takes_trees = verifies_trees(target)
    return target


def _names(home: torch.device, layers: Sequence[torch.device]) -> str:
    return " and ".join(dict.fromkeys(map(str, (home, *layers))))


def _check_complete(folder: Path, report: dict[str, Any]) -> None:
    """transformers fills what a checkpoint lacks with random numbers, and only warns."""
    for name, found, expected in sorted(report["mismatched_keys"]):
        raise LoadError(
            f"the model in {folder} does not fit its config.json (tensor {name} is {list(found)}, "
            f"expected {list(expected)}): copy or download it again"
        )
    for name in sorted(report["missing_keys"]):
        raise LoadError(f"the model in {folder} is incomplete (no tensor {name}): copy or download it again")


def _cpu_multiplies_bf16() -> bool:
    """AVX512-BF16 or AMX; elsewhere bf16 products are emulated and slower than fp32."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
