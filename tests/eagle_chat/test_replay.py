"""`eagle-chat replay` as a command: without a screen, with bad files, and what it does not import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_USAGE
from eagle_chat.replaying import Player
from tests.eagle_chat.conftest import Ran, assert_refused
from tests.eagle_chat.fake_session import SKY
from tests.eagle_chat.recordings import cut, write_recording
from tests.eagle_chat.test_terminal import in_terminal

Command = Callable[..., Ran]


def test_without_a_terminal_the_text_is_printed(command: Command, tmp_path: Path) -> None:
    """Catches a replay that hangs, draws or says nothing in a pipe."""
    ran = command("replay", write_recording(tmp_path / "a.jsonl"))
    assert ran == (EXIT_DONE, f"{SKY}\n", "42 tokens · 73.7 tok/s · τ 1.95 · eagle2 · seed 7\n")


def test_two_without_a_terminal(command: Command, tmp_path: Path) -> None:
    """Catches a verdict that needs the screen."""
    files = write_recording(tmp_path / "a.jsonl"), write_recording(tmp_path / "b.jsonl", method="none")
    ran = command("replay", *files)
    assert ran.code == EXIT_DONE
    assert ran.out == f"{SKY}\n{SKY}\n"
    assert ran.err.splitlines()[1:] == [
        "42 tokens · 54.1 tok/s · τ 1.00 · plain decoding · seed 7",
        "×1.36 against plain decoding · same text ✓ 42 tokens",
    ]


def test_a_cut_recording_is_printed_as_far_as_it_goes(command: Command, tmp_path: Path) -> None:
    """Catches half a recording that is refused, or passes for a whole one."""
    ran = command("replay", cut(write_recording(tmp_path / "a.jsonl"), 6, b'{"rou'))
    assert ran.code == EXIT_DONE
    assert SKY.startswith(ran.out.strip())
    assert "the recording was cut off here" in ran.err


def test_control_characters_stay_out_of_the_terminal(command: Command, tmp_path: Path) -> None:
    """Catches a trace that can colour, clear or retitle the terminal it is printed on."""
    ran = command("replay", write_recording(tmp_path / "a.jsonl", "So \x1b]0;title\x07 it is"))
    assert ran.out == "So ␛]0;title␇ it is\n"


def test_bad_files(command: Command, tmp_path: Path) -> None:
    """Catches a traceback, or a sentence that does not name the file."""
    damaged = write_recording(tmp_path / "a.jsonl")
    damaged.write_text(damaged.read_text().replace('"path":[0', '"path":[9', 3))
    empty = cut(write_recording(tmp_path / "empty.jsonl"), 2)
    for path, said in (
        (tmp_path / "none.jsonl", "cannot be read"),
        (tmp_path, "cannot be read"),
        (Path(__file__), "line 1 is not a JSON object"),
        (damaged, "is damaged (round 0)"),
        (empty, "has no rounds"),
    ):
        ran = command("replay", path)
        assert (ran.code, ran.out) == (EXIT_FAILURE, "")
        assert ran.err.startswith("eagle-chat: ")
        assert str(path) in ran.err
        assert said in ran.err
        assert ran.err.count("\n") == 1


def test_bad_options(command: Command, tmp_path: Path) -> None:
    """Catches a third file or an odd speed that is silently ignored."""
    path = write_recording(tmp_path / "a.jsonl")
    assert_refused(command("replay", path, path, path), "3 traces", "one or two")
    for speed in ("3", "0", "-1", "nan", "inf"):
        assert_refused(command("replay", path, "--speed", speed), "--speed is one of 0.1, 0.25, 0.5, 1, 2, 4")
    assert command("replay").code == EXIT_USAGE


def test_options_reach_the_player(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an option that is taken and forgotten."""
    players: list[Player] = []
    monkeypatch.setattr("eagle_chat.replay.has_screen", lambda: True)
    monkeypatch.setattr(
        "eagle_chat.replay_app.run_replay_app", lambda player, names, theme, look: players.append(player) or 0
    )
    path = write_recording(tmp_path / "a.jsonl")
    command("replay", path)
    command("replay", path, "--step", "--pause-on-markers", "--speed", "0.25")
    found = [(player.playing, player.pause_on_markers, player.speed) for player in players]
    assert found == [(True, False, 1.0), (False, True, 0.25)]


def test_in_a_terminal(tmp_path: Path) -> None:
    """Catches a replay that does not start, end or restore the terminal it ran in."""
    path = write_recording(tmp_path / "a.jsonl")
    program = ("-m", "eagle_chat", "replay")
    keys = [("paused", b".."), ("round  1", b"q")]
    code, output = in_terminal(tmp_path, str(path), "--step", keys=keys, program=program)
    assert code == EXIT_DONE
    assert "\x1b[?1049h" in output
    assert output.rpartition("\x1b[?1049l")[1]
    assert not keys
