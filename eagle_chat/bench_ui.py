"""`eagle-chat bench --ui`: what the screen costs the engine, measured with the real app in a terminal.

Three ways take turns on the same prompt: no app at all, the app with its draft tree hidden, and the whole
app. They share one process, so one loaded model; the terminal is a pseudo one, which this process reads.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from rich.console import Console

from eagle_chat.bench_asking import Stopped
from eagle_chat.errors import (
    EXIT_DONE,
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EagleChatError,
    UsageError,
)
from eagle_chat.options import Options
from eagle_chat.progress_bar import question_bar
from eagle_chat.streams import check_output, interruptible, write, write_json

HEADLESS, HIDDEN, SHOWN = MODES = ("headless", "tree hidden", "all shown")
PROMPT = "Write a short story about a lighthouse keeper and a lost ship."
SIZE = (120, 40)  # of the terminal
PAIRS = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """What the program in the terminal is to measure."""

    options: Options
    pairs: int
    prompt: str = PROMPT


@dataclass(frozen=True, slots=True)
class Sample:
    """One reply; shares of its wall clock are the screen's thread's, None without a screen."""

    pair: int
    mode: str
    tokens_per_second: float
    tokens: list[int]
    share: float | None = None  # CPU time
    own_share: float | None = None  # what the gauge shows: without the first frame and the last


def bench_ui(options: Options, pairs: int, as_json: bool) -> int:
    """Measure and print; the exit code. Raises UsageError or EagleChatError with one sentence."""
    check_output()
    if sys.platform == "win32":
        raise UsageError("--ui needs a pseudo terminal, which Windows does not have: leave it out")
    asked = Asked(replace(options, seed=options.seed or 0), pairs)
    narrator, stop, samples = Console(stderr=True, highlight=False), threading.Event(), list[Sample]()
    info: dict[str, Any] = {}
    try:
        with interruptible(stop), question_bar(narrator, pairs * len(MODES), "replies") as show:
            show("loading and warming up", 0)
            for line in _lines(asked, stop):
                info |= line.get("info", {})
                if "sample" in line:
                    samples.append(Sample(**line["sample"]))
                    show(samples[-1].mode, 1)
    except Stopped:
        pass
    report = summary(samples) | {"info": info, "size": SIZE, "prompt": PROMPT}
    try:
        write_json(report) if as_json else write(table(report))
    except BrokenPipeError:  # whoever read us has enough
        return EXIT_FAILURE
    return EXIT_INTERRUPTED if stop.is_set() else EXIT_DONE


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """Medians of each mode; a ratio is that of two replies of the same pair."""
    modes = {mode: [each for each in samples if each.mode == mode] for mode in MODES}
    baseline = {each.pair: each.tokens_per_second for each in modes[HEADLESS]}
    report: dict[str, Any] = {
        "pairs": len(baseline),
        "same_text": len({tuple(each.tokens) for each in samples}) <= 1,
        "modes": {},
    }
    for mode, found in modes.items():
        ratios = [each.tokens_per_second / baseline[each.pair] for each in found if each.pair in baseline]
        report["modes"][mode] = {
            "tokens_per_second": _median([each.tokens_per_second for each in found]),
            "ratio": _median(ratios),
            "ratios": ratios,
            "ui_cpu_share": _median([each.share for each in found if each.share is not None]),
            "shown_share": _median([each.own_share for each in found if each.own_share is not None]),
        }
    return report


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    columns, rows = report["size"]
    lines = [f"{'':12}  {'tok/s':>7}  {'ratio':>6}  {'UI thread':>9}  gauge says"]
    for mode, found in report["modes"].items():
        speed, ratio = _shown(found["tokens_per_second"], ".1f"), _shown(found["ratio"], ".3f")
        share, shown = _shown(found["ui_cpu_share"], ".1%"), _shown(found["shown_share"], ".1%")
        lines.append(f"{mode:12}  {speed:>7}  {ratio:>6}  {share:>9}  {shown:>10}")
    texts = "the same text every time" if report["same_text"] else "the texts differ"
    lines.append(
        f"medians of {report['pairs']} pairs at {columns}x{rows}, {texts}; ratio: engine tok/s to headless; "
        "UI thread: its CPU time, share of the reply's wall clock"
    )
    return "\n".join(lines) + "\n"


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _lines(asked: Asked, stop: threading.Event) -> Iterator[dict[str, Any]]:
    """What the program reports, as it comes. Raises Stopped, and EagleChatError where it failed."""
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", "eagle_chat.bench_ui_program", str(theirs), pickle.dumps(asked).hex()]
    with _terminal() as terminal, open(ours, encoding="utf-8") as report:
        program = subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, pass_fds=[theirs],
            env=os.environ | {"TERM": "xterm-256color"}, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            for line in report:
                value = json.loads(line)
                if "failed" in value:
                    kind = UsageError if value["code"] == EXIT_USAGE else EagleChatError
                    raise kind(value["failed"])
                yield value
                if stop.is_set():
                    raise Stopped
            if program.wait():
                raise EagleChatError("the app failed in its terminal; `eagle-chat` alone says why")
        finally:
            program.kill()
            program.wait()


@contextmanager
def _terminal() -> Iterator[int]:
    """A pseudo terminal; what is drawn on it is read and forgotten."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
    reader = threading.Thread(target=_drain, args=(ours,), daemon=True)
    reader.start()
    try:
        yield theirs
    finally:
        os.close(theirs)
        reader.join(1)
        os.close(ours)


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:  # the other side is closed
        pass
