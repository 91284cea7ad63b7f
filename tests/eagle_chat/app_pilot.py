"""Drives the app without a terminal: start it, wait for something, look at what is on screen."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from eagle_chat.app import EagleChatApp
from eagle_chat.widgets.messages import AssistantMessage, UserMessage
from eagle_chat.widgets.prompt import Prompt
from tests.eagle_chat.fake_session import FakeSession, factory

Chat = tuple[EagleChatApp, Pilot[None]]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run an asynchronous test."""
    asyncio.run(test())


async def wait_until(true: Callable[[], object], seconds: float = 8.0) -> None:
    """Wait for a condition; what the screen does with it comes a little later."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def chat(
    session: FakeSession, size: tuple[int, int] = (100, 40), **options: Any
) -> AsyncIterator[Chat]:
    """The app with a loaded session."""
    app = EagleChatApp(factory(session), title="smollm2-135m + eagle2", **options)
    app.animation_level = "none"
    app.chat.prompt_bar.prompt.set_reactive(Prompt.cursor_blink, False)
    async with app.run_test(size=size) as pilot:
        await wait_until(lambda: app.feed.info is not None)
        await pilot.pause()
        yield app, pilot
        app.worker.quit()
    app.worker.join(3)


async def send(app: EagleChatApp, pilot: Pilot[None], text: str) -> None:
    """Write a prompt and press enter."""
    prompt = app.chat.query_one(Prompt)
    prompt.focus()
    prompt.text = text
    await pilot.press("enter")


async def reply_over(app: EagleChatApp, pilot: Pilot[None]) -> None:
    """Wait for the end of the reply and for all of it to be on screen."""
    await wait_until(lambda: not app.busy)
    await wait_until(lambda: all(message.idle for message in app.chat.query(AssistantMessage)))
    await pilot.pause()


def replies(app: EagleChatApp) -> list[str]:
    """Texts of the replies in the transcript, as Markdown."""
    return [message.source for message in app.chat.query(AssistantMessage)]


def prompts(app: EagleChatApp) -> list[str]:
    """Prompts in the transcript."""
    return [message.text for message in app.chat.query(UserMessage)]


def colours(app: App[None]) -> set[str]:
    """Names of all colours on screen."""
    return {
        colour.name
        for strip in app.screen._compositor.render_strips()
        for segment in strip if segment.style
        for colour in (segment.style.color, segment.style.bgcolor) if colour is not None
    }  # fmt: skip


def picture(app: EagleChatApp) -> str:
    """The screen as text."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)
