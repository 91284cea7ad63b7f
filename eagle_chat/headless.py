"""`eagle-chat run`: one prompt, no screen. Text goes to standard output, all else to standard error."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, UsageError
from eagle_chat.events import Event, Finished, Loading, RoundDone
from eagle_chat.options import Options
from eagle_chat.summary import one_line
from eagle_chat.trace import TraceWriter, open_trace

if TYPE_CHECKING:
    from eagle_chat.session import ChatSession

LARGEST_FP32 = (
    3_000_000_000  # parameters: above, an fp32 copy would not fit beside the model on most machines
)


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
            argument = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"standard input is not valid UTF-8 (byte {error.start}): convert it first"
            ) from None
    if not argument.strip():
        raise UsageError("the prompt is empty: give one as an argument or on standard input")
    return argument


def run(options: Options, job: Job) -> int:
    """Decode one reply; the exit code."""
    narrator = Console(stderr=True, highlight=False)
    stop = threading.Event()
    with open_trace(job.trace) as file, _interruptible(stop):
        session = _load(options, narrator, watched=file is not None)
        writer = TraceWriter(file, session.info) if file else None
        events = session.ask(job.prompt, seed=options.seed, stop=stop)
        try:
            summary = _consume(events, writer, streamed=not job.as_json)
            if job.compare and not stop.is_set():
                session.engine.reset()  # both start from nothing
                plain = _consume(session.again(method="none", stop=stop), None, streamed=False)
                if not stop.is_set():
                    summary["compare"] = _compare(session, summary, plain)
            if job.as_json:
                print(json.dumps(summary, ensure_ascii=False))
            sys.stdout.flush()
        except BrokenPipeError:  # whoever read us has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_FAILURE
    _narrate(narrator, session, summary)
    return EXIT_INTERRUPTED if stop.is_set() else EXIT_DONE


def _load(options: Options, narrator: Console, watched: bool) -> ChatSession:
    from eagle_chat.loading import load_session

    if not narrator.is_terminal:
        return load_session(options, lambda event: None, watched=watched)
    with narrator.status("starting") as status:

        def show(event: Loading) -> None:
            share = f" {100 * event.done // event.total} %" if event.total else ""
            status.update(f"{event.stage}{share}")

        return load_session(options, show, watched=watched)


def _consume(events: Iterator[Event], writer: TraceWriter | None, streamed: bool) -> dict[str, Any]:
    """Pass the reply on as it grows; its summary."""
    summary: dict[str, Any] = {}
    for event in events:
        if writer:
            writer.write(event)
        if isinstance(event, RoundDone) and streamed:
            sys.stdout.write(event.text)
            sys.stdout.flush()
        if isinstance(event, Finished):
            summary = dict(event.summary)
    if streamed:
        sys.stdout.write("\n")
    return summary


def _compare(session: ChatSession, summary: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    """Speed-up, and where the two texts part; `fp32_gap` is null where the model is too large to check."""
    speeds = summary["tokens_per_second"], plain["tokens_per_second"]
    difference = first_difference(summary["tokens"], plain["tokens"])
    if difference is not None:
        gap = _fp32_gap(session, summary["tokens"][:difference], summary["seed"])
        at = {
            "index": difference,
            "token": _token_at(summary["tokens"], difference),
            "plain_token": _token_at(plain["tokens"], difference),
            "fp32_gap": gap,
        }
    return {
        "speedup": speeds[0] / speeds[1] if all(speeds) else None,
        "identical": difference is None,
        "first_difference": None if difference is None else at,
        "plain": plain,
    }


def first_difference(tokens: list[int], others: list[int]) -> int | None:
    """The first index where two sequences differ, one ending early included; None where they are equal."""
    for i, (token, other) in enumerate(zip(tokens, others, strict=False)):
        if token != other:
            return i
    return None if len(tokens) == len(others) else min(len(tokens), len(others))


def _token_at(tokens: list[int], index: int) -> int | None:
    return tokens[index] if index < len(tokens) else None


def _fp32_gap(session: ChatSession, tokens: list[int], seed: int) -> float | None:
    """How far apart fp32 sees the two best tokens after `tokens` of the reply."""
    import torch

    from engine import load_model
    from engine.near_tie import top2_gap

    model = session.engine.target.model
    if model.num_parameters() > LARGEST_FP32:
        return None
    if model.dtype != torch.float32:
        model = load_model(Path(model.config.name_or_path), torch.float32, torch.device("cpu"))
    return top2_gap(model, session.last_prompt() + tokens, replace(session.settings, seed=seed))


def _narrate(narrator: Console, session: ChatSession, summary: dict[str, Any]) -> None:
    """One line on what happened, one more for a comparison."""
    for note in session.info.notes:
        narrator.print(note, markup=False, soft_wrap=True)
    narrator.print(one_line(summary), markup=False, soft_wrap=True)
    compare = summary.get("compare")
    if compare:
        plain, difference = compare["plain"], compare["first_difference"]
        verdict = "same text" if compare["identical"] else f"differs from token {difference['index']}"
        if difference and difference["fp32_gap"] is not None:
            verdict += f" (fp32 gap {difference['fp32_gap']:.3f})"
        speedup = f"{compare['speedup']:.2f} × plain" if compare["speedup"] else "no speed-up measured"
        narrator.print(f"{one_line(plain)} · {speedup} · {verdict}", markup=False, soft_wrap=True)


@contextmanager
def _interruptible(stop: threading.Event) -> Iterator[None]:
    """The first Ctrl+C ends the reply after the current round, the second one at once."""

    def interrupt(signum: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
