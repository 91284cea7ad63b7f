"""The files of a draft head, before anything is known about its kind.

The raw config.json is read here and nowhere else: a head's layer has its own kv heads, rope base and epsilon,
and transformers' config classes rename or default those fields.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.errors import CheckpointError, CorruptFileError

FILES = (
    "model.safetensors",
    "pytorch_model.bin",
    "medusa_lm_head.safetensors",
    "medusa_lm_head.pt",
    "hydra_lm_head.pt",
)
EMBEDDING = "model.embed_tokens.weight"  # as whole language models call it


class Config:
    """A head's config.json or an object in it, whose fields are looked at before they are used."""

    def __init__(self, file: Path, fields: dict[str, object]) -> None:
        self.file = file
        self._fields = fields

    def given(self) -> dict[str, object]:
        """The fields that say something: neither null nor false, zero or empty."""
        return {name: value for name, value in self._fields.items() if value}

    def table(self, name: str) -> dict[str, object]:
        """A JSON object; empty where it is absent or null."""
        value = self._fields.get(name) or {}
        if not isinstance(value, dict):
            raise CheckpointError(f"{self.file}: {name} should be an object, not {value!r}")
        return value

    def section(self, name: str) -> Config:
        """A JSON object with fields of its own; without any where it is absent or null."""
        return Config(self.file, self.table(name))

    def count(self, name: str, default: int | None) -> int:
        """A whole number above 0. Without a default it must be there."""
        value = self._fields.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or value < 1:
            raise CheckpointError(f"{self.file}: {name} should be a whole number above 0, not {value!r}")
        return value

    def whole(self, name: str, default: int) -> int:
        """A whole number from 0 on."""
        value = self._fields.get(name)
        value = default if value is None else value
        if type(value) is not int or value < 0:
            raise CheckpointError(f"{self.file}: {name} should be a whole number, not {value!r}")
        return value

    def number(self, name: str, default: float | None) -> float:
        """A number above 0. Without a default it must be there."""
        value = self._fields.get(name)
        value = default if value is None else value
        if not isinstance(value, int | float) or not value > 0:
            raise CheckpointError(f"{self.file}: {name} should be a number above 0, not {value!r}")
        return float(value)

    def indices(self, name: str) -> list[int] | None:
        """Whole numbers from 0 on, at least one; None where it is absent or null."""
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not value or not all(type(i) is int and i >= 0 for i in value):
            raise CheckpointError(f"{self.file}: {name} should be a list of layer numbers, not {value!r}")
        return value

    def flag(self, name: str) -> bool:
        """True or false; false where it is absent or null."""
        value = self._fields.get(name) or False
        if not isinstance(value, bool):
            raise CheckpointError(f"{self.file}: {name} should be true or false, not {value!r}")
        return value


def read_config(folder: Path) -> Config:
    """The folder's config.json."""
    file = folder / "config.json"
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{file} is missing: a draft head is a folder with config.json and weights"
        ) from None
    except (ValueError, OSError) as error:
        raise CorruptFileError(f"{file} cannot be read as JSON ({error}): fetch the head again") from None
    if not isinstance(fields, dict):
        raise CorruptFileError(f"{file} holds no JSON object: fetch the head again")
    return Config(file, fields)


def read_tensors(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """The tensors by name, and the file they came from, or the index of several files."""
    for name in FILES:
        if (folder / name).is_file():
            return _read(folder / name), folder / name
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _read_shards(index), index
    raise CheckpointError(f"{folder} has none of {', '.join(FILES)}: give a folder with a draft head")


def _read_shards(index: Path) -> dict[str, Tensor]:
    """Of every file that the index names. They lie beside it, whatever it says."""
    try:
        places = dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
        files = [index.parent / Path(name).name for name in sorted(set(places.values()))]
    except (OSError, ValueError, KeyError, TypeError):
        raise CorruptFileError(f"{index} is no index of weight files: fetch the head again") from None
    refuse_models(places, index)
    return {name: tensor for file in files for name, tensor in _read(file).items()}


def refuse_models(names: Collection[str], file: Path) -> None:
    """Raise CheckpointError for a whole language model, which may be large: told by its names alone."""
    if EMBEDDING in names:
        raise CheckpointError(
            f"{file.parent} is a whole language model: draft with it by --method draft-model, or give a "
            "folder with a draft head"
        )


def _read(file: Path) -> dict[str, Tensor]:
    """The tensors of one file. Never runs code that it brings along."""
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception:
        raise CorruptFileError(f"{file} is no file of tensors, or damaged: fetch the head again") from None
    if not isinstance(loaded, dict) or not all(isinstance(tensor, Tensor) for tensor in loaded.values()):
        raise CheckpointError(f"{file} is not a table of tensors: give a folder with a draft head")
    return loaded
