"""Our cache folder, and the SHA-256 that says which weights these are, without reading gigabytes twice."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from eagle_chat.events import Loading

CACHE_VARIABLE = "EAGLE_CHAT_CACHE_DIR"
CHUNK = 1 << 22
# Model files first: a folder may also hold adapters, training state or the same weights in the older format.
WEIGHT_PATTERNS = ("model*.safetensors", "*.safetensors", "pytorch_model*.bin", "*.bin", "*_lm_head.pt")


def cache_folder() -> Path:
    """Where prepared weights and remembered hashes live. May not exist yet."""
    from platformdirs import user_cache_path

    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser()
    return user_cache_path("eagle-chat", appauthor=False)


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder that hold its tensors, sorted; empty where there are none."""
    found = (sorted(path for path in folder.glob(pattern) if path.is_file()) for pattern in WEIGHT_PATTERNS)
    return next((paths for paths in found if paths), [])


def weights_sha256(folder: Path, progress: Callable[[Loading], None] | None = None) -> str:
    """Identity of a weights folder: its file's SHA-256, or that of sorted `name sha256` lines of several."""
    paths = weight_files(folder)
    total = sum(path.stat().st_size for path in paths)
    done = 0
    hashes = []
    for path in paths:
        if progress is not None:
            progress(Loading(f"identifying {folder.name}", done, total))
        hashes.append(file_sha256(path))
        done += path.stat().st_size
    if len(hashes) == 1:
        return hashes[0]
    lines = "".join(f"{path.name} {sha}\n" for path, sha in zip(paths, hashes, strict=True))
    return hashlib.sha256(lines.encode()).hexdigest()


def read_sha256(path: Path) -> str:
    """SHA-256 of a file, read now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, remembered until its size or time of change differs."""
    # The hub's cache links large files to blobs that are named by their SHA-256.
    if path.is_symlink() and re.fullmatch(r"[0-9a-f]{64}", blob := Path(os.readlink(path)).name):
        return blob
    status = path.stat()
    key = f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"
    remembered = _read_remembered()
    if key in remembered:
        return remembered[key]
    sha = read_sha256(path)
    # Not being able to remember only costs time: the next start reads the file again.
    with suppress(OSError):
        _write_remembered(_read_remembered() | {key: sha})
    return sha


def _read_remembered() -> dict[str, str]:
    try:
        remembered = json.loads((cache_folder() / "hashes.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return remembered if isinstance(remembered, dict) else {}


def _write_remembered(remembered: dict[str, str]) -> None:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=folder, prefix="hashes.", delete=False, encoding="utf-8") as file:
        json.dump(remembered, file, indent=0)
    os.replace(file.name, folder / "hashes.json")  # readers see the old file or the new one, never half of it
