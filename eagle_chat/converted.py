"""Folders of converted weights in our cache: made once, by one process; whole or absent."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle_chat.errors import EagleChatError
from eagle_chat.events import Loading
from eagle_chat.failures import disk_full, is_disk_full
from eagle_chat.fingerprint import CACHE_VARIABLE, cache_folder, file_sha256, read_sha256
from eagle_chat.gguf_conversion import convert

MANIFEST = "manifest.json"
FORMAT = 1  # of converted folders; raise it when the conversion changes, and every cache is redone


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a GGUF file becomes, and where."""

    folder: Path
    label: str  # for people
    source_sha256: str  # of the GGUF file

    def is_ready(self) -> bool:
        """True if the folder holds exactly what a conversion of the source wrote.

        Sizes first, then hashes, remembered per size and time of change: 0.2 s the first time, then nothing.
        """
        try:
            manifest = _read_manifest(self.folder)
            entries = [
                (self.folder / name, entry["size"], entry["sha256"])
                for name, entry in manifest["files"].items()
            ]
            return (
                (manifest["format"], manifest["source_sha256"]) == (FORMAT, self.source_sha256)
                and all(path.stat().st_size == size for path, size, _ in entries)
                and all(file_sha256(path) == sha for path, _, sha in entries)
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no manifest, or not one of ours
            return False

    def prepare(self, find: Callable[[Path], Path], progress: Callable[[Loading], None]) -> None:
        """Makes the folder anew where it is missing, damaged or of an older format.

        `find` gives the GGUF file; it may leave it in the folder that it is given, which is deleted.
        """
        progress(Loading(f"checking {self.label}"))
        if self.is_ready():
            return
        cache = cache_folder()
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with _only_process(self.folder.with_name(f"{self.folder.name}.lock"), progress):
                if not self.is_ready():  # another process may have prepared it while we waited
                    self._make(find, progress)
        except OSError as error:
            if is_disk_full(error):
                raise disk_full(self.label, cache) from error
            raise EagleChatError(
                f"{self.label} cannot be kept in {cache} ({error.strerror or error}): set {CACHE_VARIABLE} "
                "to a folder that can be written."
            ) from error

    def _make(self, find: Callable[[Path], Path], progress: Callable[[Loading], None]) -> None:
        """Works beside the folder and moves the result into place at the end: it is whole or absent."""
        work = self.folder.with_name(f"{self.folder.name}.partial")
        # What a killed process left; nobody else is here, we hold the lock.
        shutil.rmtree(work, ignore_errors=True)
        try:
            convert(find(work), work / "model", self.label, progress)
            self._write_manifest(work / "model")
            if self.folder.exists():
                os.replace(self.folder, work / "damaged")
            os.replace(work / "model", self.folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _write_manifest(self, folder: Path) -> None:
        entries = {
            path.name: {"size": path.stat().st_size, "sha256": read_sha256(path)}
            for path in sorted(folder.iterdir())
        }
        manifest = {
            "format": FORMAT,
            "source": self.label,
            "source_sha256": self.source_sha256,
            "files": entries,
        }
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def source_of(folder: Path) -> str | None:
    """What a folder was converted from; None where it is not whole."""
    try:
        return str(_read_manifest(folder)["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_manifest(folder: Path) -> Any:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))


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
