"""`eagle-chat run`: one prompt, no screen. Text goes to standard output, all else to standard error."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from eagle_chat.comparison import judge
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, UsageError
from eagle_chat.events import Event, Finished, RoundDone
from eagle_chat.options import Options, is_utf8
from eagle_chat.streams import check_output, interruptible, loading_status, write, write_json
from eagle_chat.summary import one_line
from eagle_chat.trace import TraceWriter, open_trace

if TYPE_CHECKING:
    from eagle_chat.session import ChatSession


@dataclass(frozen=True)
class Job:
    """What `run` was asked for beside the common options."""

    prompt: str
    as_json: bool = False
    trace: Path | None = None
    compare: bool = False


def read_prompt(argument: str | None) -> str:
    """The prompt given, or standard input. Raises UsageError where there is none."""
    if argument is None or argument == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("there is no prompt: give one as an argument or on standard input")
        try:
            argument = sys.stdin.buffer.read().decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"standard input is not valid UTF-8 (byte {error.start}): convert it first"
            ) from None
    if not is_utf8(argument):
        raise UsageError("the prompt is not valid UTF-8: convert it first")
    if not argument.strip():
        raise UsageError("the prompt is empty: give one as an argument or on standard input")
    return argument


def run(options: Options, job: Job) -> int:
    """Decode one reply; the exit code."""
    check_output()
    if options.server is not None:
        from eagle_chat.server.run import run_through_server

        return run_through_server(options, job)
    narrator = Console(stderr=True, highlight=False)
    stop = threading.Event()
    with open_trace(job.trace) as file:
        session = _load(options, narrator, watched=file is not None)
        writer = TraceWriter(file, session.info) if file else None
        events = session.ask(job.prompt, seed=options.seed, stop=stop)
        try:
            with interruptible(stop):
                lines = _decode(session, events, writer, job, stop)
        except BrokenPipeError:  # whoever read us has enough
            return EXIT_FAILURE
    for line in lines:
        narrator.print(line, markup=False, soft_wrap=True)
    return EXIT_INTERRUPTED if stop.is_set() else EXIT_DONE


def _decode(
    session: ChatSession, events: Iterator[Event], writer: TraceWriter | None, job: Job, stop: threading.Event
) -> list[str]:
    """The reply and, where asked for, its comparison, both written as they come; what to say about them."""
    finished = _consume(events, writer, streamed=not job.as_json)
    summary = dict(finished.summary)
    lines = [*session.info.notes, one_line(summary)]
    if job.compare and not stop.is_set():
        session.engine.reset()  # both start from nothing
        plain = _consume(session.again(method="none", stop=stop), None, streamed=False)
        if not stop.is_set():
            verdict = judge(finished.summary, plain.summary, plain.difference)
            summary["compare"] = verdict.as_json() | {"plain": plain.summary}
            lines += [one_line(plain.summary), verdict.sentence()]
    if job.as_json:
        write_json(summary)
    return lines


def _load(options: Options, narrator: Console, watched: bool) -> ChatSession:
    from eagle_chat.loading import load_session

    with loading_status(narrator) as progress:
        return load_session(options, progress, watched=watched)


def _consume(events: Iterator[Event], writer: TraceWriter | None, streamed: bool) -> Finished:
    """Pass the reply on as it grows; its last event."""
    finished = Finished("")
    for event in events:
        if writer:
            writer.write(event)
        if isinstance(event, RoundDone) and streamed:
            write(event.text)
        if isinstance(event, Finished):
            finished = event
    if streamed:
        write("\n")
    return finished
