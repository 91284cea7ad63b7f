"""The app in a real (pseudo) terminal: what it leaves behind."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from eagle_chat.running import run_app
from eagle_chat.errors import UsageError
from eagle_chat.terminal import log_path
from tests.eagle_chat.fake_session import FakeSession

def make(progress):
    os.write(2, b"noise from a C library")
    if "fail" in sys.argv:
        raise UsageError("No model called 'llama9'.")
    return FakeSession("The sky is blue.")

sys.exit(run_app(make, theme=None, title="test"))
"""


def in_terminal(
    folder: Path, *arguments: str, keys: list[tuple[str, bytes]], program: tuple[str, ...] = ("-c", PROGRAM)
) -> tuple[int, str]:
    """Run the program; send each of `keys` once its text was drawn. Returns exit code and all output."""
    terminal, theirs = pty.openpty()
    environment = os.environ | {
        "EAGLE_CHAT_LOG_DIR": str(folder),
        "XDG_DATA_HOME": str(folder),
        "TERM": "xterm-256color",
        "COLUMNS": "100",
        "LINES": "30",
    }
    command = [sys.executable, *program, *arguments]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - ctrl+c is a signal only so
    )  # fmt: skip
    os.close(theirs)
    output = b""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                output += os.read(terminal, 65536)
            except OSError:  # the other side is closed
                break
        if keys and keys[0][0].encode() in output:
            os.write(terminal, keys.pop(0)[1])
    os.close(terminal)
    return process.wait(5), output.decode(errors="replace")


def test_the_terminal_is_restored_and_the_last_reply_stays(tmp_path: Path) -> None:
    """Catches a terminal left in full screen, a lost last reply, and C libraries on the screen."""
    code, output = in_terminal(tmp_path, keys=[("ready", b"hi\r"), ("tok/s · τ", b"\x11")])
    assert code == 0
    screen, _, after = output.rpartition("\x1b[?1049l")
    assert "\x1b[?1049h" in screen
    assert "\x1b[?25h" in output[output.rindex("\x1b[?25l") :]
    assert "The sky is blue." in after
    assert "seed 1234" in after
    assert "noise" not in output
    assert "noise from a C library" in (tmp_path / "eagle-chat.log").read_text()


def test_a_failure_is_told_after_the_terminal_is_restored(tmp_path: Path) -> None:
    """Catches an error message that is drawn on the full screen and vanishes with it."""
    code, output = in_terminal(tmp_path, "fail", keys=[])
    assert code == 2
    assert "eagle-chat: No model called 'llama9'." in output.rpartition("\x1b[?1049l")[2]


def test_descriptors_are_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a standard error that stays in the log file after the app."""
    from eagle_chat.terminal import stderr_to_log

    monkeypatch.setenv("EAGLE_CHAT_LOG_DIR", str(tmp_path))
    before, drawn_on = os.fstat(2), sys.__stderr__
    with stderr_to_log() as path:
        os.write(2, b"inside")
        assert sys.__stderr__ is not drawn_on
    assert (os.fstat(2).st_ino, os.fstat(2).st_dev) == (before.st_ino, before.st_dev)
    assert sys.__stderr__ is drawn_on
    assert path.read_text() == "inside"


def test_an_editor_gets_the_terminal_and_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches an editor that draws over the app or into the log, and an app that does not come back."""
    script = tmp_path / "editor.py"
    script.write_text("import sys; print('an editor'); open(sys.argv[1], 'w').write('asked outside')")
    monkeypatch.setenv("EDITOR", f"'{sys.executable}' '{script}'")
    monkeypatch.delenv("VISUAL", raising=False)
    keys = [("ready", b"\x07"), ("asked outside", b"\r"), ("tok/s · τ", b"\x11")]
    code, output = in_terminal(tmp_path, keys=keys)
    assert code == 0
    assert "an editor" in output
    assert "tok/s · τ" in output
