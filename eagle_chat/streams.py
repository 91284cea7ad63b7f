"""What the commands without a screen share: standard output, start-up progress and Ctrl+C."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Loading


def check_output() -> None:
    """Raises UsageError where standard output is closed."""
    if sys.stdout is None:
        raise UsageError("standard output is closed: there is nowhere to write to")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode still shows the rest


def write(text: str) -> None:
    """To standard output, at once."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer goes nowhere, or the interpreter complains about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise EagleChatError(
            f"standard output cannot be written ({error.strerror}): send it somewhere else"
        ) from None


def write_json(report: dict[str, Any]) -> None:
    """One line of JSON, in ASCII where standard output cannot show the rest."""
    unicode = sys.stdout.encoding.lower().replace("-", "") == "utf8"
    write(json.dumps(report, ensure_ascii=not unicode) + "\n")


@contextmanager
def loading_status(narrator: Console) -> Iterator[Callable[[Loading], None]]:
    """Takes start-up progress, and shows it where somebody looks."""
    if not narrator.is_terminal:
        yield lambda event: None
        return
    with narrator.status("starting…") as status:
        yield lambda event: status.update(Text(event.text()))


def typed_line() -> str:
    """A line from the terminal, with its end; empty at the end of the input. Ctrl+C raises KeyboardInterrupt.

    `input()` misses a Ctrl+C that comes just before it begins to wait: Python has taken note of the signal,
    but is asleep until the next key. Here every signal also ends the waiting, whenever it comes.
    """
    if os.name == "nt":  # its consoles cannot be waited for in this way
        return sys.stdin.readline()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        while sys.stdin not in select.select([sys.stdin, woken], [], [])[0]:
            os.read(woken, 1)  # by then the signal's handler has run, and it did not raise
    finally:
        signal.set_wakeup_fd(before)
        os.close(wake)
        os.close(woken)
    return sys.stdin.readline()


@contextmanager
def interruptible(stop: threading.Event, *, closing: bool = False, says: str = "") -> Iterator[None]:
    """The first Ctrl+C ends the work after the current round or step, the second one at once.

    With `closing` a closed terminal and a polite kill count as one, too. The first one `says` something.
    """

    def interrupt(signum: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        if says:  # not through a stream, which may be in the middle of writing
            os.write(2, says.encode())

    names = ("SIGINT", "SIGTERM", "SIGHUP") if closing else ("SIGINT",)
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]  # not all exist everywhere
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
