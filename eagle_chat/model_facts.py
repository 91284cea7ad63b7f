"""What is known of a model before it is loaded: from the catalogue, the files here, or the hub."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagle_chat.catalogue import entry_for
from eagle_chat.errors import EagleChatError
from eagle_chat.fingerprint import weight_files
from eagle_chat.gguf_config import config_of
from eagle_chat.gguf_file import read_gguf
from eagle_chat.gguf_models import gguf_behind
from eagle_chat.hub_cache import cached
from eagle_chat.memory_need import Model
from eagle_chat.shapes import shape_of
from eagle_chat.weights import HUB_ID

LONGEST_HEADER = 100_000_000  # bytes; the format's own limit


def known_model(name: str) -> Model | None:
    """Of an alias, a folder, a GGUF file or a hub id.

    None where nobody tells enough, or what is wrong shows later anyway.
    """
    folder = Path(name).expanduser()
    try:
        if (gguf := gguf_behind(name)) is not None:
            return _in_gguf(gguf)
    except EagleChatError:
        return None
    if folder.is_dir():
        return _in_folder(folder)
    entry = entry_for(name)
    repo = entry.target if entry is not None else name
    if not HUB_ID.fullmatch(repo):
        return None
    if (here := cached(repo)) is not None:
        return _in_folder(here)
    return _on_hub(repo) if entry is None else Model(entry.shape, entry.parameters, entry.context)


def _in_folder(folder: Path) -> Model | None:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return _model(config, weight_files(folder))


def _in_gguf(path: Path) -> Model | None:
    """As it will be held: dequantized."""
    gguf = read_gguf(path)
    config = config_of(gguf)
    shape = shape_of(config)
    return Model(shape, gguf.parameters, config["max_position_embeddings"]) if shape is not None else None


def _on_hub(repo: str) -> Model | None:
    from eagle_chat.hub_plan import config_of

    try:
        return _model(config_of(repo), [])
    except EagleChatError:  # the download says it better
        return None


def _model(config: object, paths: list[Path]) -> Model | None:
    """None for weights that are quantized already, whose numbers are no parameters."""
    if not isinstance(config, Mapping) or "quantization_config" in config:
        return None
    shape = shape_of(config)
    if shape is None:
        return None
    context = config.get("max_position_embeddings")
    counted = _counted(paths, skipped="lm_head.weight" if shape.tied else None)
    return Model(shape, counted or shape.parameters, context if isinstance(context, int) else None)


def _counted(paths: list[Path], skipped: str | None) -> int | None:
    """Numbers in safetensors files, by their headers; None for other files."""
    total = 0
    for path in paths:
        try:
            header = _header(path)
            total += sum(
                math.prod(tensor["shape"])
                for name, tensor in header.items()
                if name not in ("__metadata__", skipped)
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
    return total


def _header(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if path.suffix != ".safetensors" or length > LONGEST_HEADER:
            raise ValueError
        header: dict[str, Any] = json.loads(file.read(length))
    return header
