"""Keys and commands that keep what is on screen; and what random keys found."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.command import CommandList
from textual.geometry import Offset, Region
from textual.widgets import Static

from tests.eagle_chat.app_pilot import chat, picture, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import SKY, FakeSession
from tests.eagle_chat.recordings import replay_of
from tests.eagle_chat.replay_pilot import replaying


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(folder: Path, what: str) -> list[str]:
    """Endings of the files there."""
    return sorted(path.suffix for path in folder.glob(f"eagle-chat-{what}-*"))


def test_the_chat_is_kept(here: Path) -> None:
    """Catches a key that saves nothing, one reply of two, or the reply that was replaced."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            await pilot.press("escape", "x")
            assert "no reply to save" in picture(app)
            assert not list(here.iterdir())
            for prompt in ("Why?", "Really?"):
                await send(app, pilot, prompt)
                await reply_over(app, pilot)
            await pilot.press("f5")
            await reply_over(app, pilot)
            await pilot.press("escape", "x", "s", "S")
            await pilot.pause()
            assert str(here) in picture(app) or "Saved" in picture(app)

    run(test)
    assert saved(here, "text") == [".gz", ".html", ".md"]
    assert saved(here, "screen") == saved(here, "tree") == [".png", ".svg"]
    text = next(here.glob("*.md")).read_text()
    assert text.count(SKY) == 2
    assert f"Again: {SKY}" in text
    assert text.index("> Why?") < text.index("> Really?")
    assert "draft tree" in next(here.glob("*tree*.svg")).read_text()


def test_a_new_chat_is_not_the_old_one(here: Path) -> None:
    """Catches exported replies of a conversation that was forgotten."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            await send(app, pilot, "Why?")
            await reply_over(app, pilot)
            await pilot.press("ctrl+n")
            assert app.written() == ("smollm2-135m", [])

    run(test)


def test_a_replay_is_kept(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Catches keys of the chat that do nothing in a replay, and a race that keeps one run."""
    folder = tmp_path_factory.mktemp("traces")
    replays = replay_of(folder / "a.jsonl"), replay_of(folder / "b.jsonl", method="none")

    async def test() -> None:
        async with replaying(*replays, size=(120, 40)) as (_, _, pilot):
            await pilot.press("right_square_bracket", "s", "S", "x")

    run(test)
    assert saved(here, "screen") == saved(here, "tree") == [".png", ".svg"]
    assert next(here.glob("*.md")).read_text().count(SKY) == 2


def test_a_folder_that_is_closed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a picture that is lost, or an app that ends, where nothing can be written."""
    monkeypatch.setattr(Path, "cwd", classmethod(lambda cls: here / "file" / "below"))
    monkeypatch.setenv("XDG_DATA_HOME", str(here / "data"))
    (here / "file").touch()

    async def test() -> None:
        async with chat(FakeSession(), size=(160, 40)) as (app, pilot):
            await pilot.press("escape", "s")
            assert saved(here / "data" / "eagle-chat" / "exports", "screen") == [".png", ".svg"]
            monkeypatch.setenv("XDG_DATA_HOME", str(here / "file"))
            await pilot.press("s")
            assert "Nothing was saved" in picture(app)

    run(test)


def test_a_page_of_a_palette_without_room() -> None:
    """Catches Textual's KeyError: page up in a palette whose rows had no room yet ended the app."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            await pilot.press("ctrl+p")
            await wait_until(lambda: app.screen is not app.chat)
            rows = app.screen.query_one(CommandList)
            rows.display = False
            await pilot.pause()
            rows.clear_options().add_option("one")
            await pilot.press("pageup", "pagedown", "escape")

    run(test)


def test_a_palette_closed_at_once() -> None:
    """Catches Textual's NoMatches: one closed while it gathered commands ended the app."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            await pilot.press("ctrl+p")
            await wait_until(lambda: app.screen is not app.chat)
            palette = app.screen
            await pilot.press("escape")
            await wait_until(lambda: app.screen is app.chat)
            palette._gather_commands("")  # type: ignore[attr-defined]
            await pilot.pause()

    run(test)


def test_a_click_on_what_has_gone() -> None:
    """Catches Textual's AttributeError: a click on a message that was just removed ended the app."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            gone = Static("removed"), Offset(0, 0)
            app.screen.get_widget_and_offset_at = lambda x, y: gone  # type: ignore[method-assign]
            app.screen.get_widget_at = lambda x, y: (gone[0], Region(0, 0, 9, 1))  # type: ignore[method-assign]
            await app.on_event(events.MouseDown(None, 4, 4, 0, 0, 1, False, False, False, 4, 4))
            await pilot.pause()

    run(test)


def test_a_key_after_the_last_screen() -> None:
    """Catches Textual's ScreenStackError: a key right before the end ended the app with a traceback."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, _):
            screens = app._screen_stack.copy()
            app._screen_stack.clear()
            await app.on_event(events.Key("l", "l"))
            app._screen_stack.extend(screens)

    run(test)
