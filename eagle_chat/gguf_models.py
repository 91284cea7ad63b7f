"""Models given as a GGUF file, or a folder that holds nothing else: converted once, kept in our cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eagle_chat.converted import Conversion, source_of
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Loading
from eagle_chat.fingerprint import CACHE_VARIABLE, cache_folder, file_sha256, weight_files
from eagle_chat.gguf_config import stored_dtype
from eagle_chat.gguf_conversion import check_convertible
from eagle_chat.gguf_file import GgufFile, read_gguf
from eagle_chat.sizes import in_words

SUFFIX = ".gguf"
KEY = 16  # digits of the file's SHA-256 that name its conversion
SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
EXACT = ("BF16", "F16", "F32")


@dataclass(frozen=True, slots=True)
class Converted:
    """A folder transformers can read, made of a GGUF file."""

    folder: Path
    sha256: str  # of the GGUF file
    notes: tuple[str, ...]


def is_gguf(name: str) -> bool:
    """Whether the name is that of a file, which may not exist."""
    return name.lower().endswith(SUFFIX)


def gguf_behind(name: str) -> Path | None:
    """The file that a name stands for: itself, or the only one of a folder without other weights.

    Raises UsageError for a folder with several.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path if is_gguf(path.name) else None
    if not path.is_dir() or weight_files(path):
        return None
    found = sorted(one for one in path.iterdir() if is_gguf(one.name) and one.is_file())
    if len(found) > 1:
        raise UsageError(
            f"{name} holds several GGUF files ({found[0].name}, {found[1].name}"
            f"{', …' if len(found) > 2 else ''}): give the path of the one you mean."
        )
    return found[0] if found else None


def converted(path: Path, progress: Callable[[Loading], None]) -> Converted:
    """The folder of a GGUF file. Raises EagleChatError with one sentence for what cannot be converted."""
    gguf = read_gguf(path)
    check_convertible(gguf)
    progress(Loading(f"identifying {path.name}"))
    sha256 = file_sha256(path)
    conversion = Conversion(_home() / sha256[:KEY], path.name, sha256)
    if not conversion.is_ready():
        _check_room(gguf)
    conversion.prepare(lambda work: path, progress)
    return Converted(conversion.folder, sha256, _notes(gguf))


def conversions() -> list[tuple[Path, str | None]]:
    """Every folder that was made of a file, with the file's name; without one it is not whole."""
    home = _home()
    folders = sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
    return [(folder, source_of(folder)) for folder in folders]


def _home() -> Path:
    return cache_folder() / "gguf"


def _stored_bytes(gguf: GgufFile) -> int:
    return gguf.parameters * (4 if stored_dtype(gguf) == "float32" else 2)


def _check_room(gguf: GgufFile) -> None:
    """Raises EagleChatError where the disk would be full before the end."""
    cache, needed = cache_folder(), _stored_bytes(gguf)
    free = shutil.disk_usage(next(path for path in (cache, *cache.parents) if path.is_dir())).free
    if free < needed:
        raise EagleChatError(
            f"{gguf.path.name} is converted into {in_words(needed)}, and the disk of {cache} has room for "
            f"{in_words(free)}: make some (`eagle-chat cache` says what is there), or choose another with "
            f"{CACHE_VARIABLE}."
        )


def _notes(gguf: GgufFile) -> tuple[str, ...]:
    """That quantized weights are quantized no more."""
    if gguf.matrix_kinds[0] in EXACT:
        return ()
    kept = f"{SHORT[stored_dtype(gguf)]}, {in_words(_stored_bytes(gguf))}"
    return (
        f"The {gguf.matrix_kinds[0]} weights of {gguf.path.name} are dequantized ({kept}, see `eagle-chat "
        "cache`): they take the memory of full ones, unless --quant makes them small again.",
    )
