"""What a benchmark ran on: enough to compare numbers, no names of hosts and no paths."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eagle_chat.events import SessionInfo
from eagle_chat.spreading import JOINED

CPUINFO = Path("/proc/cpuinfo")


def machine(info: SessionInfo) -> dict[str, Any]:
    """The key `machine` of `bench --json`."""
    import torch

    on_gpu = info.device.startswith("cuda")
    return {
        "processor": processor(),
        "cores": cores(),
        "device": info.device,
        "gpu": hardware(info.device) if on_gpu else None,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "dtype": info.dtype,
        "quant": info.quant,
        "model": without_path(info.model),
        "weights_sha256": info.weights_sha256,
        "date": datetime.now(UTC).date().isoformat(),
    }


def processor(cpuinfo: Path = CPUINFO) -> str:
    """The model name as Linux knows it, else what Python knows."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def hardware(device: str) -> str:
    """The GPU, or the processor and its cores, in one line."""
    if device.startswith("cuda"):
        import torch

        return ", ".join(torch.cuda.get_device_name(one) for one in device.split(JOINED))
    return f"{processor()}, {cores()} cores"


def cores() -> int:
    """Logical ones that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return usable or 1


def without_path(name: str) -> str:
    """The last part of a path; aliases and hub ids as they are."""
    path = Path(name).expanduser()
    return path.resolve().name if path.exists() else name
