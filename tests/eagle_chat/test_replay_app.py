"""The replay on screen: sizes, colours, and two runs side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle_chat.errors import UsageError
from eagle_chat.recorded import load_recording
from eagle_chat.replay_app import ReplayApp
from eagle_chat.replaying import Player, Replay
from eagle_chat.screens.help import HelpScreen
from eagle_chat.widgets.draft_tree import DraftTreeView
from tests.eagle_chat.app_pilot import colours, picture, run, wait_until
from tests.eagle_chat.fake_session import SKY
from tests.eagle_chat.recordings import cut, replay_of, write_recording
from tests.eagle_chat.replay_pilot import drafted, plain, replaying, text_of

TRACES = Path(__file__).parents[2] / "screenshots" / "traces"
DRAFTED, PLAIN = TRACES / "drafted.jsonl", TRACES / "plain.jsonl"


def test_help_and_quit() -> None:
    """Catches a help page without these keys and words, and a quit that does not."""

    async def test() -> None:
        async with replaying(drafted(), size=(120, 80)) as (app, _, pilot):
            await pilot.press("f1")
            await pilot.pause()
            assert isinstance(app.screen, HelpScreen)
            shown = picture(app)
            assert all(word in shown for word in ("notable round", "as recorded", "ten rounds", "+, =", "τ"))
            await pilot.press("escape")
            await pilot.press("q")
            await wait_until(lambda: app.return_code is not None)
            assert app.return_code == 0

    run(test)


def test_resizing_keeps_the_place() -> None:
    """Catches layouts that crash or lose a part when the terminal changes its size, for one trace and two."""

    async def test(*replays: Replay) -> None:
        async with replaying(*replays, size=(80, 24)) as (app, player, pilot):
            await pilot.press("n")
            for width, height in [(160, 50), (60, 16), (80, 24), (200, 60), (120, 40)]:
                await pilot.resize_terminal(width, height)
                await pilot.pause(0.1)
                shown = picture(app)
                assert player.frame().done == 2, (width, height)
                assert "The planets in" in shown, (width, height)
                assert "❚❚ paused" in shown, (width, height)
                assert "1/13" in shown, (width, height)
            await pilot.resize_terminal(50, 12)
            await pilot.pause(0.1)
            assert "needs 60×16 (now 50×12)" in picture(app)

    run(lambda: test(drafted()))
    run(lambda: test(drafted(), plain()))


def test_no_color_means_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches colours in the parts that only the replay has."""
    monkeypatch.setenv("NO_COLOR", "1")

    async def test(*replays: Replay) -> None:
        async with replaying(*replays) as (app, _, pilot):
            await pilot.press("n")
            await pilot.pause()
            assert colours(app) <= {"default"}
            assert "The planets" in picture(app)

    run(lambda: test(drafted()))
    run(lambda: test(drafted(), plain()))


def test_the_tree_can_be_read_while_paused() -> None:
    """Catches a tree view that cannot be changed, or whose keys take those of the replay."""

    async def test() -> None:
        async with replaying(drafted(), size=(120, 40)) as (app, player, pilot):
            tree = app.screen.query_one(DraftTreeView)
            await pilot.press("n", "t")
            assert tree.view == "ladder"
            await pilot.press("tab", "tab", "escape")
            assert app.focused is tree
            await pilot.press("right")
            assert player.frame().done == 3

    run(test)


def test_two_runs_race() -> None:
    """Catches columns that mix the runs up, figures of the end at the start, and a verdict before the end."""

    async def test() -> None:
        replays = drafted(), plain()
        async with replaying(*replays, size=(120, 40)) as (app, player, pilot):
            for _ in range(3):
                await pilot.press("n")
            await pilot.pause()
            frames = player.frame(0), player.frame(1)
            trees = [tree.record for tree in app.screen.query(DraftTreeView)]
            assert trees == [frame.record for frame in frames]
            shown = picture(app)
            assert "eagle2 · one.jsonl" in shown
            assert "none · two.jsonl" in shown
            assert "ahead · same text so far ✓" in shown
            assert "against plain decoding" not in shown
            assert f"τ {frames[0].statistics.tau:.2f}" in shown
            await pilot.press("end")
            await pilot.pause()
            assert "×1.51 against plain decoding · same text ✓ 28 tokens" in picture(app)
            await pilot.press("left")
            await pilot.pause()
            assert "against plain decoding" not in picture(app)

    run(test)


def test_what_a_model_wrote_is_never_markup(tmp_path: Path) -> None:
    """Catches brackets read as markup and control characters sent to the terminal."""
    text = "a [red]b[/red] [/] \x1b[31mc \x9b2J d"
    replay = replay_of(tmp_path / "a.jsonl", text)

    async def test(*replays: Replay) -> None:
        async with replaying(*replays, size=(120, 40)) as (app, _, pilot):
            await pilot.press("end")
            await pilot.pause()
            assert "a [red]b[/red] [/] ␛[31mc" in picture(app)
            assert "\x1b" not in picture(app)
            assert "\x9b" not in picture(app)

    run(lambda: test(replay))
    run(lambda: test(replay, replay))


def test_a_cut_recording_says_so_at_its_end(tmp_path: Path) -> None:
    """Catches a cut recording that looks like a whole one."""
    path = cut(write_recording(tmp_path / "a.jsonl"), 8)
    replay = Replay(load_recording(path))

    async def test() -> None:
        async with replaying(replay) as (app, _, pilot):
            assert "cut off" not in picture(app)
            await pilot.press("end")
            await pilot.pause()
            assert "the recording was cut off here" in picture(app)
            assert text_of(app) in SKY

    run(test)


def test_an_unknown_theme_is_a_usage_error() -> None:
    """Catches a traceback over a mistyped --theme."""
    with pytest.raises(UsageError, match="eagle-dark"):
        ReplayApp(Player([drafted()]), ["a"], theme="eagel")
