"""The chat line by line: through pipes and in a (pseudo) terminal."""

import io
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eagle_chat.errors import EXIT_INTERRUPTED
from eagle_chat.events import Event, RoundDone
from eagle_chat.layout.outline import outline
from eagle_chat.plain import PlainChat
from tests.eagle_chat.conftest import Ran
from tests.eagle_chat.fake_session import SKY, FakeSession
from tests.eagle_chat.test_terminal import in_terminal

PROGRAM = """
import sys
from eagle_chat.plain import PlainChat
from tests.eagle_chat.fake_session import FakeSession
sys.exit(PlainChat(FakeSession("The sky is blue.", delay=30 if "slow" in sys.argv else 0)).run())
"""


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """A plain chat with these lines on standard input."""

    def run(session: FakeSession, *lines: str, ascii_only: bool = False) -> Ran:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return Ran(PlainChat(session, ascii_only).run(), *capsys.readouterr())

    return run


def test_every_line_is_a_prompt(piped: Callable[..., Ran]) -> None:
    """Catches a chat that ends after one reply, replies mixed with narration, and missing numbers."""
    session = FakeSession()
    ran = piped(session, "Why is the sky blue?", "", "And the sea?")
    assert ran.code == 0
    assert session.asked == ["Why is the sky blue?", "And the sea?"]
    assert ran.out == f"{SKY}\n{SKY}\n"
    assert ran.err.count("you> ") == 4
    assert ran.err.count("tok/s, τ 1.95, eagle2, seed 123") == 2
    assert ran.err.count("accepted by depth 67 % 43 % 0 %\n") == 2


def test_commands(piped: Callable[..., Ran]) -> None:
    """Catches commands sent to the model, and a tree of another round."""
    session = FakeSession()
    ran = piped(
        session,
        "/tree",
        "sky",
        "/tree",
        "/tree 1",
        "/tree 99",
        "/new",
        "/tree",
        "/help",
        "/nwe",
        "/quit",
        "no",
    )
    assert ran.code == 0
    assert session.asked == ["sky"]
    assert session.new_chats == 1
    rounds = [event.record for event in FakeSession().ask("sky", seed=None, stop=threading.Event())
              if isinstance(event, RoundDone)]  # fmt: skip
    assert ran.out == "\n".join([SKY, *outline(rounds[-1]), *outline(rounds[1]), ""])
    assert ran.err.count("There is no round to show yet") == 2
    assert f"There is no round 99: this reply has 0 to {len(rounds) - 1}." in ran.err
    assert "There is no command /nwe; there are /tree, /new, /help, /quit." in ran.err
    assert "/new: a new conversation" in ran.err


def test_ascii_and_nothing_that_moves_the_cursor(piped: Callable[..., Ran]) -> None:
    """Catches what a screen reader stumbles over, and what an ASCII terminal cannot show."""
    ran = piped(FakeSession("Red\x1b[2J blue"), "sky", "/tree", ascii_only=True)
    assert ran.err.isascii()
    assert "tau " in ran.err
    assert "\x1b" not in ran.out + ran.err


def test_a_failure_ends_the_reply_alone(piped: Callable[..., Ran]) -> None:
    """Catches a traceback, lost text, and a chat that ends with the first failure."""
    ran = piped(FakeSession(fail_at=2), "sky", "/tree")
    assert ran.code == 0
    assert ran.out.startswith("The sky\nround 1:")
    assert "The reply failed (ValueError: shapes [8, 576] do not match)" in ran.err
    assert "Traceback" not in ran.err


def test_ctrl_c_stops_the_reply_and_keeps_the_text(piped: Callable[..., Ran]) -> None:
    """Catches a stop that throws the text away or leaves the chat."""

    class Interrupted(FakeSession):
        def _run(self, *args: object, **options: object) -> Iterator[Event]:
            for number, event in enumerate(super()._run(*args, **options)):  # type: ignore[arg-type]
                if number == 4 and len(self.asked) == 1:
                    signal.raise_signal(signal.SIGINT)
                yield event

    ran = piped(Interrupted(), "sky", "again")
    assert ran.code == 0
    first, second = ran.out.splitlines()
    assert SKY.startswith(first)
    assert first != SKY
    assert second == SKY
    assert ran.err.count("stopped, ") == 1


def test_in_a_terminal(tmp_path: Path) -> None:
    """Catches a terminal that is redrawn or left in another mode, and no way to leave with ctrl+c."""
    keys = [("you> ", b"why?\r"), ("accepted by depth", b"\x03"), ("again to leave", b"\x03")]
    code, output = in_terminal(tmp_path, keys=keys, program=("-c", PROGRAM))
    assert code == EXIT_INTERRUPTED
    assert "eagle> The sky is blue." in output
    assert "\x1b[?1049h" not in output
    assert "\x1b[2J" not in output


def test_ctrl_c_twice_in_a_reply_leaves(tmp_path: Path) -> None:
    """Catches a chat that a slow round keeps open."""
    keys = [("you> ", b"why?\r"), ("eagle> ", b"\x03"), ("Ctrl+C again leaves at once", b"\x03")]
    code, output = in_terminal(tmp_path, "slow", keys=keys, program=("-c", PROGRAM))
    assert code == EXIT_INTERRUPTED, output


def test_the_command_line_opens_it(
    command: Callable[..., Ran], chat_model: Path, no_configuration: Path
) -> None:
    """Catches --plain that waits for a screen, and a pipe whose lines become prompts unasked."""
    options = ("--model", chat_model, "--dtype", "fp32", "--max-new-tokens", 4, "--seed", 1)
    ran = command("--plain", *options, stdin=b"Hi\n/tree\n")
    assert ran.code == 0, ran.err
    assert "0 " in ran.out
    assert "root, the last token of the text so far" in ran.out
    no_configuration.write_text("plain = true\n")
    ran = command(*options, stdin=b"Hi\n/tree\n")
    assert ran.code == 0, ran.err
    assert "root, the last token" not in ran.out
    assert "you> " not in ran.err
