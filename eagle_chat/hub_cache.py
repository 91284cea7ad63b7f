"""What of the hub's own cache is on this machine: a model's folder if it is whole, sizes, deletion."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from eagle_chat.errors import EagleChatError
from eagle_chat.fingerprint import weight_files

PREFIX = "models--"


@dataclass(frozen=True, slots=True)
class Kept:
    """A model in the cache: whole, or what an interrupted download left."""

    repo: str
    folder: Path
    size: int  # bytes on disk


def hub_folder() -> Path:
    """Where the hub's library keeps what it fetched. May not exist."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def cached(repo: str) -> Path | None:
    """The folder of a model whose config and weights are all here."""
    folder = _kept_in(repo)
    try:
        commit = (folder / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    snapshot = folder / "snapshots" / commit
    return snapshot if (snapshot / "config.json").is_file() and _has_weights(snapshot) else None


def kept() -> list[Kept]:
    """Every model of the cache, the largest first."""
    root = hub_folder()
    folders = root.glob(f"{PREFIX}*--*") if root.is_dir() else ()
    found = [
        Kept(folder.name.removeprefix(PREFIX).replace("--", "/"), folder, size_of(folder))
        for folder in folders
        if folder.is_dir()
    ]
    return sorted((one for one in found if one.size), key=lambda one: -one.size)


def size_of(folder: Path) -> int:
    """Bytes on disk below it; links are not followed, so that a blob counts once."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += 0 if path.is_symlink() or path.is_dir() else path.stat().st_size
        except OSError:  # somebody else is writing here
            continue
    return total


def delete(folder: Path) -> None:
    """Remove a folder of a cache for good. Raises EagleChatError."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise EagleChatError(
            f"{error.filename or folder} cannot be deleted ({error.strerror}): see `eagle-chat cache`"
        ) from None


def _kept_in(repo: str) -> Path:
    return hub_folder() / (PREFIX + repo.replace("/", "--"))


def _has_weights(snapshot: Path) -> bool:
    """Every file that holds tensors is there, as far as an index tells."""
    paths = weight_files(snapshot)
    names = {path.name for path in paths}
    for index in snapshot.glob(f"*{paths[0].suffix}.index.json") if paths else ():
        try:
            shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return False
        if shards - names:
            return False
    return bool(paths)
