"""The application as a whole: starting, quitting, sizes, themes, help."""

import os
import subprocess
import sys
import threading
import time

import pytest
from textual import events
from textual.geometry import Size

from eagle_chat.app import EagleChatApp
from eagle_chat.errors import EXIT_USAGE, UsageError
from eagle_chat.screens.chapters import ChaptersScreen
from eagle_chat.screens.confirm import ConfirmScreen
from eagle_chat.screens.go_to import GoToScreen
from eagle_chat.screens.help import HelpScreen
from eagle_chat.screens.methods import MethodsScreen
from eagle_chat.screens.parameters import ParametersScreen
from eagle_chat.widgets.prompt import Prompt
from tests.eagle_chat.app_pilot import chat, colours, picture, replies, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import SKY, FakeSession, factory


def hint(app: EagleChatApp) -> str:
    return str(app.chat.prompt_bar.border_title or "")


def test_a_session_that_cannot_be_made_ends_the_app() -> None:
    """Catches an app that stays open without a model, or loses the sentence or the exit code."""

    async def test() -> None:
        def broken(progress: object) -> FakeSession:
            raise UsageError("No model called 'llama9'.")

        app = EagleChatApp(broken)
        async with app.run_test():
            await wait_until(lambda: app.return_code is not None)
        assert app.failure == "No model called 'llama9'."
        assert app.return_code == EXIT_USAGE

    run(test)


def test_quitting_while_a_reply_runs_is_quick() -> None:
    """Catches a quit that waits for the reply."""

    async def test() -> None:
        async with chat(FakeSession(SKY * 50, delay=0.02)) as (app, pilot):
            await send(app, pilot, "go")
            await wait_until(lambda: replies(app) and replies(app)[0])
            began = time.monotonic()
            await pilot.press("ctrl+q")
            app.worker.join(3)
            assert not app.worker.is_alive()
            assert time.monotonic() - began < 0.5
            assert app.return_code == 0

    run(test)


def test_ctrl_c_stops_first_and_quits_when_pressed_twice() -> None:
    """Catches ctrl+c that throws a running chat away."""

    async def test() -> None:
        pace = threading.Semaphore(3)
        async with chat(FakeSession(pace=pace)) as (app, pilot):
            await send(app, pilot, "go")
            await wait_until(lambda: replies(app) and replies(app)[0])
            await pilot.press("ctrl+c")
            await reply_over(app, pilot)
            assert app.is_running
            await pilot.press("ctrl+c")
            assert "again to quit" in hint(app)
            await pilot.press("ctrl+c")
            await wait_until(lambda: app.return_code is not None)

    run(test)


def test_help_lists_the_keys_and_the_definitions() -> None:
    """Catches a help page that does not open from the prompt, or forgets a key."""

    async def test() -> None:
        async with chat(FakeSession(), size=(120, 150)) as (app, pilot):
            await pilot.press("f1")
            await pilot.pause()
            assert isinstance(app.screen, HelpScreen)
            shown = picture(app)
            assert all(
                word in shown for word in ("ctrl+r", "ctrl+n", "f5", "(new tokens − 1) / rounds", "tok/s")
            )
            await pilot.press("escape")
            assert app.screen is app.chat

    run(test)


def test_resizing_between_all_layouts() -> None:
    """Catches layouts that crash, lose the text or keep a stale place when the terminal changes its size."""

    async def test() -> None:
        async with chat(FakeSession(), size=(80, 24)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            for width, height in [(200, 60), (80, 24), (120, 40), (160, 50), (60, 16)]:
                await pilot.resize_terminal(width, height)
                await pilot.pause(0.05)
                side_by_side = app.chat.tree_view.region.x > app.chat.transcript.region.x
                assert side_by_side == (width >= 160), (width, height)
                assert app.chat.transcript.size.height >= 3
                assert app.chat.tree_view.size.height >= 3
                assert "❯" in picture(app)
                assert replies(app) == [SKY]
            await pilot.resize_terminal(50, 12)
            await pilot.pause(0.05)
            assert "needs 60×16 (now 50×12)" in picture(app).replace("\n", " ")
            await pilot.resize_terminal(80, 24)
            await pilot.pause(0.05)
            assert "❯" in picture(app)
            assert isinstance(app.focused, Prompt)

    run(test)


def test_every_theme_can_be_switched_to() -> None:
    """Catches a style sheet that uses a variable some theme lacks: Textual ends the app over it."""

    async def test() -> None:
        async with chat(FakeSession(), theme="eagle-light") as (app, pilot):
            assert app.theme == "eagle-light"
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            for name in ("eagle-dark", "textual-light", "nord", "ansi-dark", "eagle-light"):
                app.theme = name
                await pilot.pause()
                assert app.is_running
            assert replies(app) == [SKY]

    run(test)


def test_an_unknown_theme_is_a_usage_error() -> None:
    """Catches a traceback over a mistyped --theme."""
    with pytest.raises(UsageError, match="eagle-dark"):
        EagleChatApp(factory(FakeSession()), theme="eagel-dark")


def test_no_color_means_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches NO_COLOR painted as grey, which is Textual's reading of it."""
    monkeypatch.setenv("NO_COLOR", "1")

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            assert colours(app) <= {"default"}

    run(test)


def test_the_first_frame_needs_no_torch() -> None:
    """Catches an import that makes the window wait for torch."""
    code = (
        "import sys, eagle_chat.app as app;"
        "app.EagleChatApp(lambda progress: None, title='x');"
        "sys.exit(sorted({'torch', 'transformers', 'engine'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_size_of_the_past() -> None:
    """Catches a window that is dragged: two sizes at once made Textual lay out each in turn for ever."""

    async def test() -> None:
        async with chat(FakeSession(), size=(100, 40)) as (app, _):
            await app.chat.on_event(events.Resize(Size(70, 20), Size(70, 20)))
            assert app.chat.size == (100, 40)
            for screen in (
                GoToScreen(3, 20.0), ChaptersScreen(1), ConfirmScreen("Sure?", "delete"), HelpScreen(),
                ParametersScreen(app.feed.choices, app.feed.methods), MethodsScreen("pld", app.methods),
            ):  # fmt: skip
                await app.push_screen(screen)
                await screen.on_event(events.Resize(Size(70, 20), Size(70, 20)))
                assert screen.size == (100, 40), screen
                await app.pop_screen()

    run(test)
