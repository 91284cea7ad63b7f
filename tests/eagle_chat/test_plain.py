"""The chat line by line: through pipes and in a (pseudo) terminal."""

import io
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from eagle_chat.choices import Choices
from eagle_chat.errors import EXIT_INTERRUPTED
from eagle_chat.events import Event, RoundDone
from eagle_chat.layout.outline import outline
from eagle_chat.plain import PlainChat
from eagle_chat.recorded import load_recording
from eagle_chat.word_wrap import WordWrap
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


def test_a_reply_is_saved_for_a_replay(piped: Callable[..., Ran], tmp_path: Path) -> None:
    """Catches a chat line by line whose replies cannot be replayed, or a file that was overwritten."""
    file = tmp_path / "sky.jsonl.gz"
    ran = piped(FakeSession(), f"/save {file}", "sky", "/save sky.md", f"/save {file}", f"/save {file}")
    said = [line for line in ran.err.split("you> ") if line]
    assert "There is no reply with rounds" in said[1]
    assert "ends in .jsonl or .jsonl.gz" in said[3]
    assert f"eagle-chat replay {file}" in said[4]
    assert "is there already" in said[5]
    trace = load_recording(file)
    assert (trace.header["prompt"], trace.summary["text"]) == ("sky", SKY)


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
        "/clear",
        "/tree",
        "/help",
        "/clera",
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
    assert "There is no command /clera (did you mean /clear?)" in ran.err
    assert "/clear: forget the conversation" in ran.err
    assert "/temp [T]: temperature; 0 is greedy" in ran.err


def test_commands_of_the_app(piped: Callable[..., Ran]) -> None:
    """Catches settings that only the screen has, a mistake that ends the chat, and // that is no prompt."""
    session = FakeSession()
    lines = ("/temp 0.7", "/method pld", "/seed 7", "/system Be brief.", "/nodes 1000", "/method eagle9")
    ran = piped(session, *lines, "//usr?", "/retry", "/regen 3", "/temp")
    assert ran.code == 0
    assert session.choices == Choices("pld", temperature=0.7, seed=7, system="Be brief.")
    assert "method pld, from the next reply on." in ran.err
    assert "more than the 36 candidates" in ran.err
    assert "/method: it has to be one of none, eagle2, pld, not eagle9." in ran.err
    assert "/temp is 0.7 now" in ran.err
    assert session.asked == ["/usr?"]
    assert session.seeds == [7, 7, 3]
    assert ran.out == f"{SKY}\nAgain: {SKY}\nAgain: {SKY}\n"


def test_a_method_that_does_not_load_leaves_the_chat(piped: Callable[..., Ran]) -> None:
    """Catches a conversation that is lost with the first head that cannot be read."""
    session = FakeSession(damaged="pld")
    ran = piped(session, "/method pld", "sky")
    assert (ran.code, ran.out) == (0, f"{SKY}\n")
    assert "The head of pld is damaged.\n" in ran.err


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_words_stay_whole_at_the_edge_of_a_terminal(size: int) -> None:
    """Catches words cut in two, code that loses its indentation, and text that waits for more or is lost."""
    text = "The sky is blue because.\n\n    def f(x):\n" + "y" * 25 + " end 空の色は空の色は空の色は\n"
    parts: list[str] = []
    wrap = WordWrap(parts.append, 20, column=7)
    for start in range(0, len(text), size):
        wrap.add(text[start : start + size])
    assert "".join(parts).split("\n")[:5] == ["The sky is", "blue because.", "", "    def f(x):", "y" * 20]
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(cell_len(line) <= 20 for line in "".join(parts).split("\n"))


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


def test_a_terminal_breaks_lines_between_words(tmp_path: Path) -> None:
    """Catches a reply or its numbers whose words are cut at the edge of the terminal."""
    program = PROGRAM.replace("The sky is blue.", SKY)
    keys = [("you> ", b"why?\r"), ("by depth", b"\x04")]
    code, output = in_terminal(tmp_path, keys=keys, program=("-c", program))
    assert code == 0
    lines = output.replace("\r", "").splitlines()
    reply = [line for line in lines if line in f"eagle> {SKY}" and len(line) > 20]
    assert len(reply) == 3
    assert " ".join(reply) == f"eagle> {SKY}"
    assert max(map(len, lines)) <= 100


def test_a_signal_that_does_not_wake_the_waiting(tmp_path: Path) -> None:
    """Catches a Ctrl+C of which Python takes note while the main thread sleeps on until the next key.

    It comes so where it arrives just before the waiting begins; here another thread receives it.
    """
    program = f"""
import signal, threading, time
import eagle_chat.plain, tests.eagle_chat.fake_session  # a signal that comes while they load is not heard
def strike():
    for _ in range(2):
        time.sleep(0.3)  # too early would only prove less
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=strike, daemon=True).start()
{PROGRAM}"""
    code, output = in_terminal(tmp_path, keys=[], program=("-c", program))
    assert code == EXIT_INTERRUPTED
    assert "again to leave" in output


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
