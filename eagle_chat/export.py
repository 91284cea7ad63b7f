"""`eagle-chat export`: a recorded trace as a picture of one tree, a page, Markdown, or a trace again."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eagle_chat.documents import Turn, html, markdown
from eagle_chat.errors import EXIT_DONE, EagleChatError, UsageError
from eagle_chat.layout.picture import View
from eagle_chat.pictures import colours, most_telling, png, tree_rows, tree_svg
from eagle_chat.recorded import load_recording
from eagle_chat.replaying import Replay
from eagle_chat.trace import GZIP, PACKED, PLAIN, Trace, ending
from eagle_chat.visible import visible


@dataclass(frozen=True)
class Job:
    """What `export` was asked for."""

    trace: Path
    to: Path
    round: int | None = None  # of a picture; None: the most telling one
    width: int = 120
    view: View | None = None  # None: what suits the width
    theme: str | None = None


def export(job: Job) -> int:
    """Write the file; the exit code. Raises UsageError or EagleChatError with one sentence."""
    suffix = ending(job.to)
    make = _MAKERS.get(suffix)
    if make is None:
        known = ", ".join(_MAKERS)
        raise UsageError(f"{job.to} has no ending that says what to write: use one of {known}")
    if job.round is not None and suffix not in PICTURES:
        raise UsageError(f"--round chooses the tree of a picture, and {job.to} is none: leave it out")
    if job.to.exists() and job.to.samefile(job.trace):
        raise UsageError(f"{job.to} is the trace itself: name another file with --to")
    trace = load_recording(job.trace)
    write_file(job.to, make(trace, job))
    print(f"{job.to}: {_what(trace, job, suffix)}", file=sys.stderr)
    return EXIT_DONE


def write_file(path: Path, content: bytes) -> None:
    """Raises EagleChatError where it cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise EagleChatError(f"{path} cannot be written ({error.strerror}): name another file") from None


def encoded(text: str) -> bytes:
    """A file's bytes; halves of characters, which a trace may hold, become question marks."""
    return text.encode("utf-8", "replace")


def turn_of(trace: Trace) -> Turn:
    """What was asked and replied."""
    replay = Replay(trace)
    return Turn(trace.header["prompt"], trace.rounds, replay.frame(replay.rounds).text, replay.last_line())


def _round(trace: Trace, job: Job) -> int:
    if job.round is None:
        return most_telling(trace.rounds)
    if not 0 <= job.round < len(trace.rounds):
        raise UsageError(f"there is no round {job.round}: {job.trace} has 0 to {len(trace.rounds) - 1}")
    return job.round


def _svg(trace: Trace, job: Job) -> bytes:
    return encoded(_picture(trace, job))


def _png(trace: Trace, job: Job) -> bytes:
    return png(_picture(trace, job))


def _picture(trace: Trace, job: Job) -> str:
    record = trace.rounds[_round(trace, job)].record
    title = visible(f"round {record.index}, {trace.info.model}, {trace.header['method']}")
    return tree_svg(tree_rows(record, job.width, job.view), colours(job.theme), title)


def _html(trace: Trace, job: Job) -> bytes:
    return encoded(html([turn_of(trace)], trace.info.model, colours(job.theme), job.width))


def _markdown(trace: Trace, job: Job) -> bytes:
    return encoded(markdown([turn_of(trace)], trace.info.model))


def _jsonl(trace: Trace, job: Job) -> bytes:
    data = job.trace.read_bytes()
    return gzip.decompress(data) if data.startswith(GZIP) else data


def _packed(trace: Trace, job: Job) -> bytes:
    return gzip.compress(_jsonl(trace, job), mtime=0)  # the same trace, the same file


def _what(trace: Trace, job: Job, suffix: str) -> str:
    if suffix in PICTURES:
        return f"the tree of round {_round(trace, job)} of {len(trace.rounds) - 1}"
    return f"{len(trace.rounds) - 1} rounds"


PICTURES = (".svg", ".png")
_MAKERS: dict[str, Callable[[Trace, Job], bytes]] = {
    ".svg": _svg,
    ".png": _png,
    ".html": _html,
    ".md": _markdown,
    PLAIN: _jsonl,
    PACKED: _packed,
}
