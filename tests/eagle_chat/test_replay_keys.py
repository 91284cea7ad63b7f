"""The keys of the replay."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from eagle_chat.phases import Phase, Stage
from eagle_chat.recorded import load_recording
from eagle_chat.replaying import Replay
from eagle_chat.screens.go_to import GoToScreen, parse_place
from eagle_chat.trace import Marker, write_markers
from eagle_chat.widgets.draft_tree import DraftTreeView
from tests.eagle_chat.app_pilot import picture, run, wait_until
from tests.eagle_chat.recordings import write_recording
from tests.eagle_chat.replay_pilot import Clock, drafted, replaying, text_of

TRACES = Path(__file__).parents[2] / "screenshots" / "traces"
DRAFTED, PLAIN = TRACES / "drafted.jsonl", TRACES / "plain.jsonl"


def test_steps_and_jumps() -> None:
    """Catches a key that does nothing, moves by the wrong amount, or leaves text, tree or gauge behind."""

    async def test() -> None:
        replay = drafted()
        async with replaying(replay) as (app, player, pilot):
            tree = app.screen.query_one(DraftTreeView)
            for keys, done in (
                (["greater_than_sign"], 1), (["right"], 2), (["l"], 3), (["less_than_sign"], 2),
                (["left"], 1), (["h"], 0),
                (["h"], 0), (["right_square_bracket"], 10), (["left_square_bracket"], 0), (["end"], 14),
                (["right"], 14), (["home"], 0), (["n"], 2), (["n"], 5), (["N"], 2), (["n", "n", "p"], 5),
            ):  # fmt: skip
                await pilot.press(*keys)
                await pilot.pause()
                frame = replay.frame(done)
                assert player.frame().done == done, keys
                assert not player.playing
                assert tree.record is frame.record
                assert text_of(app) == frame.text
                assert f"{max(0, done - 1):>2}/13" in picture(app)
                assert (frame.notable or "no such") in picture(app) or frame.notable is None

    run(test)


def test_the_end_and_back_again() -> None:
    """Catches an end that cannot be left, or leaves its line of figures behind when one goes back."""

    async def test() -> None:
        async with replaying(drafted()) as (app, _, pilot):
            await pilot.press("end")
            await pilot.pause()
            assert "28 tokens · 66.2 tok/s · τ 2.08 · eagle2 · seed 7" in picture(app)
            assert "■ the end" in picture(app)
            await pilot.press("left")
            await pilot.pause()
            assert "seed 7 " not in picture(app).partition("── draft tree")[0].partition("\n")[2]
            assert "❚❚ paused" in picture(app)

    run(test)


def test_play_and_pause_by_the_recorded_clock() -> None:
    """Catches a replay that plays while paused, jumps after a pause, or does not end."""

    async def test() -> None:
        clock = Clock()
        async with replaying(drafted(), clock=clock) as (app, player, pilot):
            clock.now += 5
            await asyncio.sleep(0.15)
            assert player.frame().done == 0
            await pilot.press("space")
            await asyncio.sleep(0.15)
            assert "▶ playing" in picture(app)
            assert player.frame().done == 0  # the time of the pause is not made up for
            clock.now += 0.1
            await wait_until(lambda: player.frame().done > 0)
            assert player.ms == pytest.approx(100)
            await pilot.press("space")
            clock.now += 5
            await asyncio.sleep(0.15)
            assert player.ms == pytest.approx(100)
            await pilot.press("space")
            await asyncio.sleep(0.15)
            clock.now += 5
            await wait_until(lambda: player.over)
            await wait_until(lambda: "■ the end" in picture(app))
            await pilot.press("space")
            await wait_until(lambda: player.playing)
            assert player.frame().done == 0

    run(test)


def test_speed_keys() -> None:
    """Catches a speed that is shown and not used, or a key that starts what was paused."""

    async def test() -> None:
        clock = Clock()
        async with replaying(drafted(), clock=clock, playing=True) as (app, player, pilot):
            assert "×1 as recorded" in picture(app)
            await pilot.press("minus", "minus", "minus")
            await wait_until(lambda: "×0.1 " in picture(app))
            await asyncio.sleep(0.1)
            clock.now += 1
            await wait_until(lambda: player.ms > 0)
            assert player.ms == pytest.approx(100)
            await pilot.press(*["plus"] * 4, "equals_sign")
            await wait_until(lambda: "×4 " in picture(app))
            await pilot.press("home", "minus")
            await wait_until(lambda: "×2 " in picture(app))
            assert not player.playing

    run(test)


def test_go_to() -> None:
    """Catches a place that is misread, an answer that is not understood and closes, or keys that leak."""

    async def test() -> None:
        async with replaying(drafted()) as (app, player, pilot):
            for typed, done in (("7", 8), ("0.2s", None), ("999", 14)):
                await pilot.press("g")
                await wait_until(lambda: isinstance(app.screen, GoToScreen) and app.focused is not None)
                await pilot.press(*["full_stop" if key == "." else key for key in typed], "enter")
                await wait_until(lambda: app.screen is app.player_screen)
                if done is None:
                    assert player.ms == pytest.approx(200)
                else:
                    assert player.frame().done == done
            await pilot.press("g")
            await wait_until(lambda: isinstance(app.screen, GoToScreen) and app.focused is not None)
            await pilot.press("n", "q", "enter")
            await pilot.pause()
            assert "write 12 for a round" in picture(app)
            await pilot.press("escape")
            await wait_until(lambda: app.screen is app.player_screen)
            assert player.frame().done == 14

    run(test)


def test_places() -> None:
    """Catches a time taken for a round, and nonsense taken for either."""
    assert parse_place(" 12 ") == 12
    assert isinstance(parse_place("12"), int)
    assert [parse_place(text) for text in ("1.5s", "2 s", ".25s", "3.s")] == [1.5, 2.0, 0.25, 3.0]
    assert all(isinstance(parse_place(text), float) for text in ("2s", "1.5s"))
    assert [parse_place(text) for text in ("", "x", "-1", "1.5", "1e3s", "s", "²")] == [None] * 7


def test_slow_motion_shows_the_tree_before_the_verdict() -> None:
    """Catches a verdict that is on screen before the target gave it, or text that runs ahead of it."""

    async def test() -> None:
        clock = Clock()
        replay = drafted()
        async with replaying(replay, size=(120, 40), clock=clock) as (app, _, pilot):
            await pilot.press("minus", "minus", "minus", "right", "right", "space")
            await asyncio.sleep(0.15)
            clock.now += 10 * 0.8 * replay.trace.rounds[2].record.ms / 1000
            await wait_until(lambda: "4/7: rerank" in picture(app))
            tree = app.screen.query_one(DraftTreeView)
            assert (tree.record, tree.phase) == (replay.trace.rounds[2].record, Phase(Stage.RERANK, 3))
            assert text_of(app) == replay.frame(2).text
            assert "Rerank: the best 8 of 36 go to the target" in picture(app)
            await pilot.press("space", "right")
            await pilot.pause()
            assert (tree.record, tree.phase) == (replay.trace.rounds[2].record, None)
            assert text_of(app) == replay.frame(3).text

    run(test)


def test_a_round_phase_by_phase() -> None:
    """Catches a text or a gauge that tells the verdict before the tree does, and keys that skip a phase."""

    async def test() -> None:
        replay = drafted()
        async with replaying(replay, size=(80, 24)) as (app, player, pilot):
            await pilot.press("right", "right", "right")
            for step, stage in enumerate(
                ("draft level 1", "draft level 2", "draft level 3", "rerank", "verify", "accept"), start=1
            ):
                await pilot.press("full_stop")
                await pilot.pause()
                assert f"round 2 · step {step}/7: {stage}" in picture(app)
                assert text_of(app) == replay.frame(2).text
            await pilot.press("full_stop")
            await pilot.pause()
            assert "step 7/7: bonus" in picture(app)
            assert text_of(app) == replay.frame(3).text
            await pilot.press("full_stop", "comma", "comma")
            await pilot.pause()
            assert "round 2 · step 6/7: accept" in picture(app)
            await pilot.press("right")
            await pilot.pause()
            assert (player.frame().done, "step" in picture(app)) == (4, False)

    run(test)


def test_a_lesson(tmp_path: Path) -> None:
    """Catches markers that are not shown, are passed over, or cannot be found again."""
    path = write_recording(tmp_path / "lesson.jsonl")
    write_markers(
        path, [Marker(2, "Look at the tree."), Marker(2, "And [here]."), Marker(5, "The \x1b end.")]
    )

    async def test() -> None:
        clock = Clock()
        async with replaying(Replay(load_recording(path)), clock=clock) as (app, player, pilot):
            player.pause_on_markers = True
            await pilot.press("space")
            await asyncio.sleep(0.1)
            clock.now += 60
            await wait_until(lambda: "And [here]." in picture(app))
            assert "Look at the tree." in picture(app)
            assert (player.playing, player.frame().done) == (False, 3)
            await pilot.press("full_stop")
            await pilot.pause()
            assert "Look at the tree." in picture(app)  # while one walks through what it is about
            await pilot.press("m")
            await pilot.pause()
            assert player.frame().done == 6
            assert "The ␛ end." in picture(app)
            await pilot.press("m", "M")
            await pilot.pause()
            assert player.frame().done == 3
        async with replaying(drafted()) as (app, player, pilot):
            await pilot.press("m")
            assert "marker" not in picture(app)
            assert player.place == 0

    run(test)
