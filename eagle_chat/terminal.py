"""The terminal while the app runs: what C libraries write to descriptor 2 goes to the log."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import platformdirs

LOG_NAME = "eagle-chat.log"


def is_terminal(stream: TextIO | None) -> bool:
    """A stream that was closed before we started is None."""
    return stream is not None and stream.isatty()


def has_screen() -> bool:
    """Whether an application can be shown and driven here."""
    return is_terminal(sys.stdin) and is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"


def log_path() -> Path:
    """Where warnings and tracebacks go.

    The folder is made. A log that cannot be written is no reason to stop.
    """
    folder = Path(os.environ.get("EAGLE_CHAT_LOG_DIR") or platformdirs.user_log_path("eagle-chat"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOG_NAME).open("a").close()
    except OSError:
        return Path(os.devnull)
    return folder / LOG_NAME


@contextlib.contextmanager
def stderr_to_log() -> Iterator[Path]:
    """Descriptor 2 is the log file; `sys.__stderr__`, where Textual draws, the terminal; undone after."""
    path = log_path()
    terminal = os.dup(2)
    drawn_on = sys.__stderr__
    with open(path, "a", encoding="utf-8", buffering=1) as log, logging_to(log):
        os.dup2(log.fileno(), 2)
        # Textual draws on standard error; where that is redirected, standard output may still be a terminal
        screen = os.fdopen(
            os.dup(terminal if os.isatty(terminal) else 1), "w", encoding="utf-8", errors="backslashreplace"
        )
        sys.__stderr__ = screen  # type: ignore[misc]
        try:
            yield path
        finally:
            sys.__stderr__ = drawn_on  # type: ignore[misc]
            screen.close()
            os.dup2(terminal, 2)
            os.close(terminal)


@contextlib.contextmanager
def logging_to(log: TextIO) -> Iterator[None]:
    """Our own log messages go to `log` meanwhile."""
    handler = logging.StreamHandler(log)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("eagle_chat")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def tell_failed(log: Path) -> None:
    """The screen ended by an error, and the terminal is as it was."""
    print(f"eagle-chat: the screen failed; details are in {log}.", file=sys.stderr)
