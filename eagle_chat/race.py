"""`eagle-chat race`: one prompt with two methods, one after the other, then both on one clock."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING

from rich.console import Console
from rich.status import Status
from rich.text import Text

from eagle_chat.comparison import judge
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, UsageError
from eagle_chat.events import Event, Finished, RoundDone, Started
from eagle_chat.look import Look
from eagle_chat.methods import Method, to_load
from eagle_chat.more_methods import MoreMethods
from eagle_chat.options import Options
from eagle_chat.racing import Race
from eagle_chat.recorded import load_recording
from eagle_chat.replaying import Player, Replay
from eagle_chat.streams import check_output, interruptible, loading_status, write, write_json
from eagle_chat.summary import one_line
from eagle_chat.terminal import has_screen
from eagle_chat.trace import TraceWriter, open_trace

if TYPE_CHECKING:
    from eagle_chat.session import ChatSession


@dataclass(frozen=True)
class Job:
    """What `race` was asked for beside the common options."""

    prompt: str
    methods: str | None = None
    as_json: bool = False
    trace_to: Path | None = None
    theme: str | None = None
    look: Look = field(default_factory=Look)


@dataclass(frozen=True)
class _Run:
    """One method's reply, recorded."""

    finished: Finished
    trace: Path


def race(options: Options, job: Job) -> int:
    """Decode twice, then replay or report; the exit code."""
    check_output()
    loaded, pair = _methods(options, job.methods)
    shown = has_screen() and not job.as_json
    if shown:
        from eagle_chat.replay_app import check_theme

        check_theme(job.theme, job.look)
    narrator = Console(stderr=True, highlight=False)
    stop = threading.Event()
    with _folder(job.trace_to) as folder:
        with loading_status(narrator) as progress:
            from eagle_chat.loading import load_session
            from eagle_chat.loading_target import check_drafts

            session = load_session(replace(options, method=loaded), progress)
            check_drafts(session.engine.target, options.model)
        names = pair or (session.info.method, Method.NONE.value)
        with interruptible(stop):
            runs = _run_both(session, names, job, folder, narrator, stop)
        if stop.is_set():
            print("eagle-chat: the race was stopped before both had finished.", file=sys.stderr)
            return EXIT_INTERRUPTED
        return _report(session, names, runs, job, shown)


def _methods(options: Options, asked: str | None) -> tuple[Method | None, tuple[str, str] | None]:
    """The method to load, and both in the order they were named; None: what the model has, and plain."""
    if asked is None:
        if options.method is Method.NONE:
            raise UsageError("plain decoding cannot race itself: name two methods with --methods")
        return options.method, None
    if options.method is not None:
        raise UsageError("--method and --methods say the same: leave one of them out")
    names = [name.strip() for name in asked.split(",")]
    unknown = [name for name in names if name not in list(Method)]
    if unknown:
        raise UsageError(f'"{unknown[0]}" is no method: --methods takes two of {", ".join(Method)}')
    if len(names) != 2 or names[0] == names[1]:
        raise UsageError("a race has two different methods: name them as in --methods eagle2,none")
    return to_load(names, MoreMethods(options).names), (names[0], names[1])


@contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    """Where the runs are recorded; found out before anything slow happens."""
    if wanted is None:
        with TemporaryDirectory(prefix="eagle-chat-race.") as folder:
            yield Path(folder)
        return
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=wanted).close()
    except OSError as error:
        raise UsageError(
            f"traces cannot be written to {wanted} ({error.strerror}): give another folder as --trace-to"
        ) from None
    yield wanted


def _run_both(
    session: ChatSession,
    names: tuple[str, str],
    job: Job,
    folder: Path,
    narrator: Console,
    stop: threading.Event,
) -> dict[str, _Run]:
    """Both replies, never at the same time; that of the loaded method first. Each starts from nothing."""
    own = session.info.method
    other = names[1] if names[0] == own else names[0]
    runs: dict[str, _Run] = {}
    with narrator.status("", refresh_per_second=4) as status:
        for name in (own, other):
            session.load(name)
            session.engine.reset()
            events = (
                session.again(method=name, stop=stop)
                if runs
                else session.ask(job.prompt, seed=None, stop=stop)
            )
            runs[name] = _record(session, name, events, folder / f"{name}.jsonl", status)
            if stop.is_set():
                break
            narrator.print(one_line(runs[name].finished.summary), markup=False, soft_wrap=True)
    return runs


def _record(session: ChatSession, method: str, events: Iterator[Event], path: Path, status: Status) -> _Run:
    """One reply into a trace; where it is shows in `status`."""
    finished = Finished("")
    with open_trace(path) as file:
        assert file is not None
        writer = TraceWriter(file, replace(session.info, head=session.head_of(method)))
        for event in events:
            writer.write(event)
            match event:
                case Finished():
                    finished = event
                case Started():
                    status.update(Text(f"{event.method}: reading the prompt"))
                case RoundDone(record):
                    status.update(Text(f"{method}: round {record.index}"))
    return _Run(finished, path)


def _report(
    session: ChatSession, names: tuple[str, str], runs: dict[str, _Run], job: Job, shown: bool
) -> int:
    """Side by side on the screen; without one, or as JSON, the result alone."""
    from eagle_chat.bench_machine import hardware

    machine = hardware(session.info.device)
    own, other = runs.values()
    difference = other.finished.difference
    try:
        if job.as_json:
            verdict = judge(own.finished.summary, other.finished.summary, difference)
            summaries = [runs[name].finished.summary for name in names]
            write_json({"runs": summaries, **verdict.as_json(), "machine": machine})
            return EXIT_DONE
        replays = [Replay(load_recording(runs[name].trace)) for name in names]
        result = Race(replays, names, machine=machine, measured=difference)
        if not shown:
            write(f"{result.card()}\n")
            return EXIT_DONE
    except BrokenPipeError:  # whoever read us has enough
        return EXIT_FAILURE
    from eagle_chat.replay_app import run_replay_app

    return run_replay_app(Player(replays), names, job.theme, job.look, result)
