"""Freezing the view, pausing the engine, and walking through rounds while it waits."""

import threading
from functools import partial

import pytest

from eagle_chat.app import EagleChatApp
from eagle_chat.frame_budget import FrameBudget
from eagle_chat.screens.compare import CompareScreen
from eagle_chat.screens.go_to import GoToScreen
from tests.eagle_chat.app_pilot import chat, picture, prompts, replies, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import SKY, FakeSession
from tests.eagle_chat.test_app_rewind import at_round, rounds

PAUSED = "❚❚ engine paused"
SIZES = [(80, 24), (160, 50)]
FREE = partial(FrameBudget, cpu=lambda: 0.0)  # painting costs nothing: frames come as soon as they may


async def pause(app: EagleChatApp, pilot, pace: threading.Semaphore, at: int = 5) -> None:
    """The engine waits after that round, and has leave for many more."""
    await send(app, pilot, "sky")
    await at_round(app, at)
    await pilot.press("tab", "p")
    assert not app.pausing.waiting
    pace.release()
    await wait_until(lambda: PAUSED in picture(app))
    pace.release(200)
    await wait_until(lambda: app.chat.tree_view.record.index == at + 1)


def footer(app: EagleChatApp) -> str:
    """The line of keys."""
    return picture(app).splitlines()[-1]


def pacing(at: int = 5) -> tuple[FakeSession, threading.Semaphore]:
    pace = threading.Semaphore(at + 1)
    return FakeSession(pace=pace), pace


@pytest.mark.parametrize("size", SIZES)
def test_the_view_freezes_and_the_engine_runs_on(size: tuple[int, int]) -> None:
    """A part of the screen that goes on by itself, no word about how far behind it is, or no way back."""

    async def test() -> None:
        session, pace = pacing(4)
        async with chat(session, size=size, budget=FREE()) as (app, pilot):
            await send(app, pilot, "sky")
            await at_round(app, 4)
            await pilot.press("tab", "space")
            before = replies(app)
            pace.release(3)
            await wait_until(lambda: "❚❚ 3 rounds behind" in picture(app))
            assert app.chat.tree_view.record.index == 4
            assert replies(app) == before
            await pilot.press("space")
            await at_round(app, 7)
            await wait_until(lambda: replies(app) != before)
            await pilot.press("space")
            pace.release(200)
            await reply_over(app, pilot)
            assert replies(app) == [SKY]
            assert app.chat.tree_view.record.index == 7  # still to be read
            assert "behind" not in picture(app)

    run(test)


@pytest.mark.parametrize("size", SIZES)
def test_the_engine_waits_and_steps(size: tuple[int, int]) -> None:
    """A pause that rounds run past, a step that shows the verdict at once, text that tells it beforehand."""

    async def test() -> None:
        session, pace = pacing()
        async with chat(session, size=size, budget=FREE()) as (app, pilot):
            await pause(app, pilot, pace)
            await pilot.press("right")
            await at_round(app, 7)
            await wait_until(lambda: PAUSED in picture(app))
            text = replies(app)
            await pilot.press(*["full_stop"] * 7)
            await pilot.pause()
            assert "bonus" in app.chat.tree_view.text()
            await pilot.press("full_stop")
            await wait_until(lambda: "round 8 · step 1/7: draft level 1" in picture(app))
            await wait_until(lambda: app.pausing.waiting)
            assert rounds(app) == 8
            assert replies(app) == text
            await pilot.press(*["full_stop"] * 6)
            await wait_until(lambda: replies(app) != text)
            await pilot.press("comma", "p")
            await reply_over(app, pilot)
            assert replies(app) == [SKY]
            assert "step" not in app.chat.tree_view.text()

    run(test)


def test_stop_while_paused() -> None:
    """An esc that does nothing because the engine waits; text that was held back and is lost."""

    async def test() -> None:
        session, pace = pacing()
        async with chat(session, budget=FREE()) as (app, pilot):
            await pause(app, pilot, pace)
            await pilot.press("full_stop", "full_stop", "escape")
            assert app.busy
            await pilot.press("escape")
            await reply_over(app, pilot)
            assert app.feed.reply.stopped
            assert replies(app) == [app.feed.reply.text]
            assert not app.pausing.wanted
            app.chat.prompt_bar.prompt.focus()
            await send(app, pilot, "again")
            await reply_over(app, pilot)
            assert replies(app)[-1] == SKY

    run(test)


def test_a_prompt_while_paused() -> None:
    """A prompt that is lost, or wakes the engine; one that waits for ever without a word."""

    async def test() -> None:
        session, pace = pacing()
        async with chat(session, budget=FREE()) as (app, pilot):
            await pause(app, pilot, pace)
            await send(app, pilot, "next")
            await wait_until(lambda: "p lets the engine go on" in picture(app))
            assert app.pausing.waiting
            await pilot.press("tab", "p")
            await wait_until(lambda: prompts(app) == ["sky", "next"])
            await reply_over(app, pilot)
            assert replies(app) == [SKY, SKY]

    run(test)


def test_a_new_chat_while_paused() -> None:
    """A conversation that is left with the engine still waiting in it."""

    async def test() -> None:
        session, pace = pacing()
        async with chat(session, budget=FREE()) as (app, pilot):
            await pause(app, pilot, pace)
            await pilot.press("ctrl+n")
            await wait_until(lambda: session.new_chats == 1 and not app.busy)
            assert not app.pausing.wanted
            await send(app, pilot, "fresh")
            await reply_over(app, pilot)
            assert (prompts(app), replies(app)) == (["fresh"], [SKY])

    run(test)


def test_compare_and_quit_while_paused() -> None:
    """A comparison that begins behind a reply that waits, or a program that cannot be left."""

    async def test() -> None:
        session, pace = pacing()
        async with chat(session, budget=FREE()) as (app, pilot):
            await pause(app, pilot, pace)
            await pilot.press("ctrl+r")
            await pilot.pause()
            assert not isinstance(app.screen, CompareScreen)
            assert "Wait for the reply" in picture(app)
            await pilot.press("ctrl+q")
            await wait_until(lambda: not app.worker.is_alive())

    run(test)


def test_a_pause_at_the_end_is_not_for_the_next_reply() -> None:
    """A pause asked for in the last round that holds the next reply."""

    async def test() -> None:
        session, pace = pacing()
        async with chat(session, budget=FREE()) as (app, pilot):
            await pause(app, pilot, pace)
            while app.busy:
                await wait_until(lambda: app.pausing.waiting or not app.busy)
                await pilot.press("right")
                await pilot.pause()
            assert replies(app) == [SKY]
            await pilot.press("p")
            await send(app, pilot, "again")
            await reply_over(app, pilot)
            assert replies(app) == [SKY, SKY]

    run(test)


def test_jumps_through_the_reply() -> None:
    """Keys of the replay that do nothing in the chat, or go to another place."""

    async def test() -> None:
        async with chat(FakeSession(), size=(80, 24)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("tab", "g")
            await wait_until(lambda: isinstance(app.screen, GoToScreen) and app.focused is not None)
            await pilot.press("6", "enter")
            await wait_until(lambda: app.screen is app.chat)
            assert app.chat.tree_view.record.index == 6
            await pilot.press("home", "full_stop")
            await pilot.pause()
            assert "prefill of 21 · step 1/1: bonus" in picture(app)
            await pilot.press("N")
            await pilot.pause()
            assert "no notable round that way" in picture(app)

    run(test)


def test_the_keys_of_a_pause_fit_80_columns() -> None:
    """Catches the footer that offered to freeze what stood still, and not the key that lets it go on."""

    async def test() -> None:
        session, pace = pacing()
        async with chat(session, size=(80, 24), budget=FREE()) as (app, pilot):
            await send(app, pilot, "sky")
            await at_round(app, 5)
            await pilot.press("tab")
            await wait_until(lambda: "p pause" in footer(app))
            assert "space freeze" in footer(app)
            await pilot.press("p")
            pace.release()
            await wait_until(lambda: app.pausing.waiting)
            for _ in range(2):
                await wait_until(lambda: "space" not in footer(app))
                assert "p pause" in footer(app)
                assert "., phase" in footer(app)
                await pilot.press("full_stop")
                await pilot.pause()
            await pilot.press("p")
            pace.release(200)
            await reply_over(app, pilot)

    run(test)


def test_a_pause_that_comes_too_late_writes_nothing() -> None:
    """Catches the p and the space that went into the prompt because the reply had just ended."""

    async def test() -> None:
        async with chat(FakeSession(), size=(80, 24)) as (app, pilot):
            await pilot.press("tab", "p")
            assert app.chat.prompt_bar.prompt.text == "p"  # nothing to pause was ever there: somebody writes
            app.chat.prompt_bar.prompt.clear()
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("tab", "p", "space")
            assert app.chat.prompt_bar.prompt.text == ""
            assert "The reply is over" in picture(app)
            assert app.focused is app.chat.tree_view
            await pilot.press("y", "o", "u")
            await pilot.press("q")
            assert app.chat.prompt_bar.prompt.text.endswith("q")

    run(test)


def test_a_miss_is_forgotten_with_the_next_jump() -> None:
    """Catches 'no notable round that way' above a notable round."""

    async def test() -> None:
        async with chat(FakeSession(), size=(80, 24)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("tab", "home", "N")
            assert "no notable round that way" in picture(app)
            await pilot.press("right")
            await pilot.pause()
            assert "no notable round that way" not in picture(app)

    run(test)
