"""What this machine has, without importing torch: GPUs by the driver's own tool, memory, PyTorch's build."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

TOOL = "nvidia-smi"
FIELDS = "name,memory.total,memory.free,compute_cap,driver_version"
TOOL_SECONDS = 10.0
MEBIBYTE = 1 << 20
MEMINFO = Path("/proc/meminfo")
CPUINFO = Path("/proc/cpuinfo")
CGROUP = Path("/sys/fs/cgroup")  # limits of a container


@dataclass(frozen=True, slots=True)
class Gpu:
    """One of NVIDIA's. Sizes are bytes."""

    name: str
    total: int
    free: int
    capability: tuple[int, int]
    driver: str

    @property
    def has_bf16(self) -> bool:
        """Multiplies it in hardware: from Ampere on."""
        return self.capability >= (8, 0)


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """PyTorch as installed."""

    version: str
    cuda: str | None  # the version it was built for; None: without CUDA


def gpus() -> list[Gpu]:
    """What the driver sees, without a driver nothing."""
    lines = _ask_driver(f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits").splitlines()
    found = []
    for line in lines:
        with suppress(ValueError):
            name, total, free, capability, driver = (part.strip() for part in line.rsplit(",", 4))
            major, _, minor = capability.partition(".")
            sizes = (int(total) * MEBIBYTE, int(free) * MEBIBYTE)
            found.append(Gpu(name, *sizes, (int(major), int(minor)), driver))
    return found


def driver_cuda() -> str | None:
    """The newest CUDA version that the driver runs."""
    found = re.search(r"CUDA(?: \w+)? Version: *([\d.]+)", _ask_driver())
    return found.group(1) if found else None


def torch_build() -> TorchBuild | None:
    """None where PyTorch is not installed."""
    try:
        installed, spec = version("torch"), find_spec("torch")
    except (PackageNotFoundError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    written = ""
    with suppress(OSError):
        written = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    cuda = re.search(r"^cuda\b.*= *['\"]([\d.]+)['\"]", written, re.MULTILINE)
    return TorchBuild(installed, cuda.group(1) if cuda else None)


def free_memory() -> int | None:
    """Bytes of main memory that a program may still take; all there is where the system tells no more."""
    free = _meminfo("MemAvailable")
    if free is None:
        try:
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):  # Windows has no sysconf
            return None
    return min(free, _container_free() or free)


def processor_has_bf16() -> bool:
    """AVX512-BF16 or AMX, as Linux knows it."""
    try:
        flags = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def _ask_driver(*arguments: str) -> str:
    try:
        done = subprocess.run(
            [TOOL, *arguments], capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _meminfo(name: str) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _container_free() -> int | None:
    """What a container's limit leaves; pages of files that can be dropped count as free."""
    with suppress(OSError, ValueError):
        limit, used = ((CGROUP / f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current"))
        stat = (CGROUP / "memory.stat").read_text(encoding="ascii")
        cached = re.search(r"^inactive_file (\d+)$", stat, re.MULTILINE)
        return int(limit) - int(used) + (int(cached.group(1)) if cached else 0)
    return None
