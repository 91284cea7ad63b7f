"""A GGUF file's header: its metadata, and where its tensors lie. No torch.

The reader of the `gguf` package takes 3 s for a vocabulary of 49,000 tokens and 15 s for one of 128,000, and
follows some damaged lengths without end; a header is looked at on every start.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from eagle_chat.errors import EagleChatError, UsageError

MAGIC, VERSIONS = b"GGUF", (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
ALIGNMENT = 32  # of tensors, unless the file says otherwise
MOST_DIMENSIONS = 8


class _DamagedError(Exception):
    """Something that no whole file has."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where a tensor is."""

    name: str
    shape: tuple[int, ...]  # rows first, as torch has it
    kind: str  # Q4_K, F16, …
    start: int  # in the file
    size: int  # bytes there


@dataclass(frozen=True, slots=True)
class GgufFile:
    """What a file says of itself."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str:
        """`llama`, `qwen2`, …"""
        return str(self.metadata.get("general.architecture", "nothing"))

    @property
    def parameters(self) -> int:
        """Numbers in all tensors."""
        return sum(prod(tensor.shape) for tensor in self.tensors)

    @property
    def matrix_kinds(self) -> list[str]:
        """The types of the weights, the one that most of them have first; norms and biases do not count."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            if len(tensor.shape) > 1:
                sizes[tensor.kind] = sizes.get(tensor.kind, 0) + prod(tensor.shape)
        return sorted(sizes, key=lambda kind: -sizes[kind])


def read_gguf(path: Path) -> GgufFile:
    """Raises EagleChatError with one sentence for what is no GGUF file, not whole, or of an unknown kind."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as blob:
            return _read(path, blob)
    except OSError as error:
        raise EagleChatError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (_DamagedError, struct.error, ValueError, OverflowError) as error:  # ValueError: an empty file
        raise EagleChatError(
            f"{path} is damaged or not a whole GGUF file: copy or download it again."
        ) from error


def _read(path: Path, blob: mmap.mmap) -> GgufFile:
    if blob[:4] != MAGIC:
        raise UsageError(f"{path} is no GGUF file, whatever its name says: give another file or a folder.")
    cursor = _Cursor(blob, len(MAGIC))
    version = cursor.number("I")
    if version not in VERSIONS:
        raise UsageError(
            f"{path} is of GGUF version {version}, and only 2 and 3 are known: get a newer conversion."
        )
    tensor_count, key_count = cursor.number("Q"), cursor.number("Q")
    metadata = {cursor.text(): cursor.value(cursor.number("I")) for _ in range(key_count)}
    found = [_entry(cursor) for _ in range(tensor_count)]
    alignment = int(metadata.get("general.alignment", ALIGNMENT))
    if alignment < 1:
        raise _DamagedError
    data = -(-cursor.position // alignment) * alignment
    tensors = tuple(_placed(path, entry, data) for entry in found)
    if any(tensor.start + tensor.size > len(blob) for tensor in tensors):
        raise _DamagedError
    return GgufFile(path, metadata, tensors)


class _Cursor:
    """Reads on from a position; never past the end."""

    def __init__(self, blob: mmap.mmap, position: int) -> None:
        self._blob = blob
        self.position = position

    def numbers(self, code: str, count: int) -> list[Any]:
        """Little-endian ones."""
        if count * struct.calcsize(code) > len(self._blob) - self.position:
            raise _DamagedError
        layout = f"<{count}{code}"
        values = struct.unpack_from(layout, self._blob, self.position)
        self.position += struct.calcsize(layout)
        return list(values)

    def number(self, code: str) -> Any:
        """One."""
        return self.numbers(code, 1)[0]

    def text(self) -> str:
        """With its length before it."""
        length = self.number("Q")
        end = self.position + length
        if end > len(self._blob):
            raise _DamagedError
        text = self._blob[self.position : end].decode("utf-8")
        self.position = end
        return text

    def value(self, kind: int) -> Any:
        """Of metadata."""
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.number(_code(kind))
        inner, count = self.number("I"), self.number("Q")
        if inner == STRING:
            return [self.text() for _ in range(count)]
        return self.numbers(_code(inner), count)


def _code(kind: int) -> str:
    if kind not in SCALARS:
        raise _DamagedError
    return SCALARS[kind]


def _entry(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape, type and offset."""
    name, dimensions = cursor.text(), cursor.number("I")
    if dimensions > MOST_DIMENSIONS:
        raise _DamagedError
    shape = tuple(reversed(cursor.numbers("Q", dimensions)))
    return name, shape, cursor.number("I"), cursor.number("Q")


def _placed(path: Path, entry: tuple[str, tuple[int, ...], int, int], data: int) -> Tensor:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    name, shape, number, offset = entry
    try:
        kind = GGMLQuantizationType(number)
        per_block, block_bytes = GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError):
        raise UsageError(
            f"{path} has weights of a type that is not known here (number {number}, tensor {name}): choose "
            "another of the model's files, such as Q4_K_M, Q8_0 or F16."
        ) from None
    return Tensor(name, shape, kind.name, data + offset, prod(shape) // per_block * block_bytes)
