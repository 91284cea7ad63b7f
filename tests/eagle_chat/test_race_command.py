"""`eagle-chat race`: two methods one after the other, and what is reported."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eagle_chat.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_USAGE
from eagle_chat.racing import Race
from tests.eagle_chat.app_pilot import picture, run, wait_until
from tests.eagle_chat.conftest import SUMMARY_KEYS, Ran, assert_refused
from tests.eagle_chat.replay_pilot import TRACES, drafted, plain, replaying
from tests.eagle_chat.test_terminal import in_terminal

Command = Callable[..., Ran]
Racing = Callable[..., Ran]


@pytest.fixture
def racing(command: Command, chat_model: Path, chat_head: Path, one_thread: None) -> Racing:
    """A race of the tiny model in fp32."""
    options = ("--model", chat_model, "--dtype", "fp32", "--max-new-tokens", "12", "--seed", "3")

    def race(*args: object, head: bool = True) -> Ran:
        return command("race", *(("--head", chat_head) if head else ()), *options, *args)

    return race


def test_without_a_terminal_the_result_card_is_printed(racing: Racing) -> None:
    """Catches a race that draws in a pipe, or whose two texts differ in fp32."""
    ran = racing("Why is the sky blue?")
    assert ran.code == EXIT_DONE, ran.err
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        "prompt", "eagle2+pld", "plain", "result", "model", "head", "machine",
    ]  # fmt: skip
    assert "same text ✓ 12 tokens" in lines[4]
    assert "fp32 · T=0 · seed 3" in lines[5]
    assert "plain decoding · seed 3" in ran.err


def test_json_and_traces(racing: Racing, command: Command, tmp_path: Path) -> None:
    """Catches runs in the wrong order, traces that cannot be replayed, and different seeds."""
    ran = racing("Hi", "--json", "-t", "1", "--methods", "none,eagle2", "--trace-to", tmp_path / "new" / "er")
    report = json.loads(ran.out)
    assert [each["method"] for each in report["runs"]] == ["none", "eagle2"]
    assert all(list(each) == SUMMARY_KEYS for each in report["runs"])
    assert report["runs"][0]["tokens"] == report["runs"][1]["tokens"]
    assert (report["identical"], report["first_difference"]) == (True, None)
    assert report["machine"]
    files = [tmp_path / "new" / "er" / f"{name}.jsonl" for name in ("eagle2", "none")]
    assert "same text ✓ 12 tokens" in command("replay", *files).err


def test_prompt_lookup_needs_no_head(racing: Racing) -> None:
    """Catches methods without a head that are looked for in the head's place."""
    report = json.loads(racing("Hi Hi Hi", "--json", "--methods", "pld,none", head=False).out)
    assert [each["method"] for each in report["runs"]] == ["pld", "none"]
    assert report["identical"]


def test_replies_end_before_a_small_model_repeats_itself(
    command: Command, chat_model: Path, one_thread: None
) -> None:
    """Catches a race over hundreds of tokens of a loop, easily won by drafting, and a card without that."""
    options = ("--model", chat_model, "--dtype", "fp32", "--methods", "pld,none", "--seed", "3")
    ran = command("race", "Hi", *options)
    assert "plain    128 tokens · τ 1.00" in ran.out
    assert ran.out.count("· cut at --max-new-tokens") == 2


def test_two_that_draft(racing: Racing) -> None:
    """Catches a session that cannot run prompt lookup beside its head, and words for plain decoding."""
    ran = racing("Hi Hi Hi", "--methods", "pld,eagle2")
    assert ran.out.splitlines()[4].startswith("result   ×")
    assert ", pld against eagle2 · same text ✓ 12 tokens" in ran.out


def test_what_cannot_race(command: Command, tmp_path: Path) -> None:
    """Catches minutes of loading before a sentence, and races of one."""
    (tmp_path / "file").write_text("")
    for args, said in (
        (["--methods", "eagle2"], "two different methods"),
        (["--methods", "none,none"], "two different methods"),
        (["--methods", "eagle2,pld,none"], "two different methods"),
        (["--methods", "eagle9,none"], '"eagle9" is no method'),
        (["--methods", "eagle2,eagle3"], "weights of their own"),
        (["--methods", "eagle2,none", "--method", "eagle2"], "leave one of them out"),
        (["--method", "none"], "cannot race itself"),
        (["--trace-to", str(tmp_path / "file")], "traces cannot be written"),
    ):
        assert_refused(command("race", "Hi", *args), said)
    assert command("race", "").code == EXIT_USAGE


def test_an_interrupted_race_has_no_result(racing: Racing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a card of a run that was stopped."""

    @contextmanager
    def interrupted(stop: threading.Event) -> Iterator[None]:
        stop.set()
        yield

    monkeypatch.setattr("eagle_chat.race.interruptible", interrupted)
    ran = racing("Hi")
    assert (ran.code, ran.out) == (EXIT_INTERRUPTED, "")
    assert "stopped before both had finished" in ran.err


def test_the_result_can_be_copied() -> None:
    """Catches a key that copies nothing, or another result than the one on screen."""

    async def test() -> None:
        replays = drafted(), plain()
        async with replaying(*replays, size=(80, 24)) as (app, _, pilot):
            await pilot.press("end", "y")
            await wait_until(lambda: app.clipboard)
            await pilot.pause()
            assert app.clipboard == Race(replays, ["one.jsonl", "two.jsonl"]).card()
            assert "×1.51 against plain decoding" in app.clipboard
            assert "copied" in picture(app)

    run(test)


PROGRAM = f"""
from pathlib import Path
from eagle_chat.look import Look
from eagle_chat.racing import Race
from eagle_chat.recorded import load_recording
from eagle_chat.replay_app import run_replay_app
from eagle_chat.replaying import Player, Replay
replays = [Replay(load_recording(Path({str(TRACES)!r}) / name)) for name in ("drafted.jsonl", "plain.jsonl")]
names = ["eagle2", "none"]
race = Race(replays, names, machine="A chip")
raise SystemExit(run_replay_app(Player(replays, playing=False), names, None, Look(), race))
"""


def test_in_a_terminal(tmp_path: Path) -> None:
    """Catches a result that is gone when the screen is."""
    code, output = in_terminal(tmp_path, keys=[("paused", b"q")], program=("-c", PROGRAM))
    assert code == EXIT_DONE
    after = output.rpartition("\x1b[?1049l")[2]
    assert "×1.51 against plain decoding · same text ✓ 28 tokens" in after
    assert "A chip" in after
