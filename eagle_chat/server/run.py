"""`eagle-chat run --server`: one reply of a server, without the screen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, UsageError
from eagle_chat.events import Arrived, Event, Finished, Note, ServerSays
from eagle_chat.options import Options
from eagle_chat.server.options import NO_COMPARISON
from eagle_chat.server.session import connect
from eagle_chat.server.words import in_one_line
from eagle_chat.streams import interruptible, loading_status, write, write_json
from eagle_chat.summary import one_line

if TYPE_CHECKING:
    from eagle_chat.headless import Job


def run_through_server(options: Options, job: Job) -> int:
    """Have a server reply; the exit code."""
    if job.compare:
        raise UsageError(f"--compare does not go with --server. {NO_COMPARISON}")
    if job.trace is not None:
        raise UsageError("--trace records rounds, and a server does not show its own: leave --trace out")
    narrator = Console(stderr=True, highlight=False)
    with loading_status(narrator) as progress:
        session = connect(options, progress)
    stop = threading.Event()
    lines = [*session.info.notes]
    try:
        with interruptible(stop):
            lines += _pass_on(session.ask(job.prompt, seed=options.seed, stop=stop), job.as_json)
    except BrokenPipeError:  # whoever read us has enough
        return EXIT_FAILURE
    for line in lines:
        narrator.print(line, markup=False, soft_wrap=True)
    return EXIT_INTERRUPTED if stop.is_set() else EXIT_DONE


def _pass_on(events: Iterator[Event], as_json: bool) -> list[str]:
    """Write the reply as it comes, or its JSON; what to say about it."""
    lines = []
    try:
        for event in events:
            match event:
                case Arrived(text) if not as_json:
                    write(text)
                case Note(text):
                    lines.append(text)
                case ServerSays(acceptance=acceptance):
                    lines.append(in_one_line(acceptance))
                case Finished(summary=summary):
                    lines.insert(len(lines) - 1, f"{one_line(summary)} · by our clock")
                    if as_json:
                        write_json(summary)
    finally:  # also below the part of a reply that failed
        if not as_json:
            write("\n")
    return lines
