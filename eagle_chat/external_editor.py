"""The user's own editor for a text."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eagle_chat.errors import EagleChatError


@contextmanager
def _interrupts_are_the_editors() -> Iterator[None]:
    """ctrl+c reaches us as well; a handler, unlike ignoring, is not handed down to the editor."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def edit_text(text: str) -> str:
    """`text` as $VISUAL or $EDITOR leaves it; the terminal must be free. Raises EagleChatError."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="eagle-chat-") as folder:
        file = Path(folder) / "prompt.md"
        try:
            file.write_text(text, encoding="utf-8")
            # standard error is our log while the app runs; `sys.__stderr__` is the terminal
            with _interrupts_are_the_editors():
                subprocess.run([*shlex.split(command), str(file)], check=True, stderr=sys.__stderr__)
            return file.read_text(encoding="utf-8").removesuffix("\n")
        except subprocess.CalledProcessError as error:
            raise EagleChatError(
                f"The editor ended with code {error.returncode}, so the prompt stays as it was."
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise EagleChatError(f"The editor {command!r} does not work ({reason}): set EDITOR.") from None
