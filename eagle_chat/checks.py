"""What `eagle-chat doctor` finds out about Python, PyTorch, the GPU and the disk. Imports no torch."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from eagle_chat import smollm2
from eagle_chat.fingerprint import cache_folder
from eagle_chat.hardware import (
    Gpu,
    TorchBuild,
    driver_cuda,
    free_memory,
    gpus,
    processor_has_bf16,
    torch_build,
)
from eagle_chat.hub_cache import hub_folder, size_of
from eagle_chat.sizes import MB, in_words

OLDEST_PYTHON = (3, 11)
ROOM = 1_000 * MB  # bytes for the default model, its wheel and the conversion


class Status(StrEnum):
    """How serious it is."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Check:
    """Something that was looked at. The ids are for scripts and stay."""

    id: str
    status: Status
    found: str
    next_step: str = ""


def check_software() -> Iterator[Check]:
    """Python, PyTorch and the libraries beside it."""
    here = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= OLDEST_PYTHON:
        yield Check("python", Status.PASS, here)
    else:
        yield Check("python", Status.FAIL, here, "install Python 3.11 or newer")
    build = torch_build()
    if build is None:
        yield Check("torch", Status.FAIL, "not installed", "pip install torch")
    else:
        yield Check("torch", Status.PASS, _named(build))
    yield _library("transformers", Status.FAIL)
    yield _library("bitsandbytes", Status.WARN)


def check_gpu() -> Iterator[Check]:
    """The GPU, and whether PyTorch and the driver go together."""
    found, build = gpus(), torch_build()
    if not found:
        yield Check("gpu", Status.PASS, "no NVIDIA GPU: the CPU runs small models")
    for number, gpu in enumerate(found):
        memory = f"{in_words(gpu.free)} of {in_words(gpu.total)} free"
        capability = ".".join(map(str, gpu.capability))
        text = f"cuda:{number} {gpu.name}, {memory}, compute capability {capability}"
        yield Check("gpu", Status.PASS, text)
    if found and build is not None:
        yield _driver(found[0], build)
    yield _bf16(found)


def check_memory() -> Check:
    """Main memory."""
    free = free_memory()
    if free is None:
        return Check("memory", Status.WARN, "this system does not tell", "start with the default model")
    if free < ROOM:
        return Check("memory", Status.WARN, f"{in_words(free)} free", "close other programs")
    return Check("memory", Status.PASS, f"{in_words(free)} free")


def check_disk() -> Iterator[Check]:
    """The caches, the room beside them, and the default model."""
    for identifier, folder in (("cache", cache_folder()), ("hub-cache", hub_folder())):
        size = size_of(folder) if folder.is_dir() else 0
        yield Check(identifier, Status.PASS, f"{in_words(size)} in {folder}")
    ready = smollm2.is_ready()
    free = shutil.disk_usage(_existing(cache_folder())).free
    if free >= ROOM:
        yield Check("disk", Status.PASS, f"{in_words(free)} free")
    else:
        step = "free some: `eagle-chat cache` says what models take"
        yield Check("disk", Status.WARN if ready else Status.FAIL, f"{in_words(free)} free", step)
    if ready:
        yield Check("default-model", Status.PASS, f"{smollm2.ALIAS} is here")
    else:
        step = f"eagle-chat pull {smollm2.ALIAS}"
        yield Check("default-model", Status.WARN, f"{smollm2.ALIAS} is not here yet", step)


def _library(name: str, without: Status) -> Check:
    try:
        return Check(name, Status.PASS, version(name))
    except PackageNotFoundError:
        return Check(name, without, "not installed", f"pip install {name}")


def _named(build: TorchBuild) -> str:
    return f"{build.version} for {f'CUDA {build.cuda}' if build.cuda else 'the CPU'}"


def _driver(gpu: Gpu, build: TorchBuild) -> Check:
    """A driver runs programs of its own major CUDA version and of older ones."""
    newest = driver_cuda()
    text = f"driver {gpu.driver}" + (f", up to CUDA {newest}" if newest else "")
    if build.cuda is None:
        return Check(
            "driver", Status.WARN, f"{text}, but PyTorch is built for the CPU",
            "install PyTorch with CUDA, or the GPU stays unused",
        )  # fmt: skip
    if newest and int(newest.partition(".")[0]) < int(build.cuda.partition(".")[0]):
        return Check(
            "driver", Status.FAIL, f"{text}, but PyTorch is built for {build.cuda}",
            f"update the driver, or install PyTorch for CUDA {newest.partition('.')[0]}",
        )  # fmt: skip
    return Check("driver", Status.PASS, f"{text}, PyTorch for {build.cuda}")


def _bf16(found: list[Gpu]) -> Check:
    if found:
        has, instead = found[0].has_bf16, "fp16"
    else:
        has, instead = processor_has_bf16(), "fp32"
    where = "GPU" if found else "processor"
    if has:
        return Check("bf16", Status.PASS, f"the {where} multiplies it")
    return Check("bf16", Status.PASS, f"the {where} does not multiply it: {instead} is used")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.is_dir())
