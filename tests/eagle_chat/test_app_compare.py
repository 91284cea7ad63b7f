"""The comparison with plain decoding."""

import asyncio
import threading

from textual.pilot import Pilot

from eagle_chat.app import EagleChatApp
from eagle_chat.screens.compare import CompareScreen
from eagle_chat.widgets.compare import RunColumn
from tests.eagle_chat.app_pilot import chat, picture, replies, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import INFO, SKY, FakeSession


def hint(app: EagleChatApp) -> str:
    return str(app.chat.prompt_bar.border_title or "")


def test_compare_shows_both_runs_and_the_verdict() -> None:
    """Catches a comparison against the wrong run, a missing verdict, or one that changes the conversation."""

    async def test() -> None:
        async with chat(FakeSession(), size=(120, 40)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("ctrl+r")
            await wait_until(lambda: isinstance(app.screen, CompareScreen) and app.screen.verdict is not None)
            await pilot.pause()
            shown = picture(app)
            assert "×1.36 against plain decoding" in shown
            assert "same text ✓ 42 tokens" in shown
            assert "73.7 tok/s   τ 1.95" in shown
            assert "54.1 tok/s   τ 1.00" in shown
            # (42 − 1) tokens at that speed: the clock of the ratio, without the prompt's 0.18 s
            assert "0.56 s   73.7 tok/s" in shown
            assert "0.76 s   54.1 tok/s" in shown
            assert shown.count("0.18 s before that: prefill") == 2
            await pilot.press("escape")
            assert app.screen is app.chat
            assert replies(app) == [SKY]
            assert "×1.36 vs plain 54.1" in picture(app)
            await send(app, pilot, "another")
            await reply_over(app, pilot)
            assert "vs plain" not in picture(app)  # that was another prompt

    run(test)


def test_compare_reports_the_first_difference() -> None:
    """Catches a verdict that says 'same' without looking at the tokens."""

    async def test() -> None:
        other = SKY.replace("Rayleigh", "another")
        async with chat(FakeSession(plain_text=other)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("ctrl+r")
            await wait_until(lambda: isinstance(app.screen, CompareScreen) and app.screen.verdict is not None)
            await pilot.pause()
            assert "differs from token 10 on" in picture(app)

    run(test)


def test_the_earlier_run_is_replayed_at_its_own_pace() -> None:
    """Catches a race whose recorded side is finished before it starts: the engine's clock must drive both."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            session.pace = threading.Semaphore(4)
            await pilot.press("ctrl+r")
            await wait_until(lambda: "is blue" in picture(app))
            left = app.screen.query_one("#drafted", RunColumn)
            assert "sky" in str(left._text.content)
            assert SKY not in str(left._text.content)
            await pilot.press("escape")
            await reply_over(app, pilot)
            assert replies(app) == [SKY]

    run(test)


def test_nothing_to_compare() -> None:
    """Catches a crash or silence when there is no reply yet, or when the session decodes plainly itself."""

    async def test() -> None:
        from dataclasses import replace

        async with chat(FakeSession(info=replace(INFO, method="none"))) as (app, pilot):
            await pilot.press("ctrl+r")
            assert "no reply to compare yet" in hint(app)
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("ctrl+r")
            assert "plain decoding already" in hint(app)
            assert app.screen is app.chat

    run(test)


def marked(app: EagleChatApp, column: str) -> list[str]:
    """What stands in reverse video in the text of a column."""
    content = app.screen.query_one(f"#{column}", RunColumn)._text.content
    return [content.plain[span.start : span.end] for span in content.spans if span.style == "reverse"]  # type: ignore[union-attr]


async def compared(app: EagleChatApp, pilot: Pilot[None]) -> CompareScreen:
    """The comparison, after its verdict."""
    await wait_until(lambda: isinstance(app.screen, CompareScreen) and app.screen.verdict is not None)
    await wait_until(lambda: not app.busy)
    await pilot.pause()
    assert isinstance(app.screen, CompareScreen)
    return app.screen


def test_the_first_difference_is_marked_in_both_texts() -> None:
    """Catches a mark on the wrong token, on one side only, or on texts that are the same."""

    async def test(other: str) -> list[list[str]]:
        async with chat(FakeSession(plain_text=other), size=(120, 40)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("ctrl+r")
            await compared(app, pilot)
            return [marked(app, "drafted"), marked(app, "plain")]

    for other, expected in (
        (SKY.replace("Rayleigh", "another"), [[" Rayleigh"], [" another"]]),
        (SKY, [[], []]),
        (SKY.removesuffix(" sky."), [[" sky."], ["■"]]),
    ):
        assert asyncio.run(test(other)) == expected


def test_another_method_and_the_result_card() -> None:
    """Catches a second comparison that shows the first one's run, and a card of the wrong run."""

    async def test() -> None:
        async with chat(FakeSession(), size=(120, 40)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("ctrl+r")
            await compared(app, pilot)
            await pilot.press("y")
            await wait_until(lambda: app.clipboard)
            first = app.clipboard
            assert "plain    42 tokens · τ 1.00 · 54.1 tok/s" in first
            assert "result   ×1.36 against plain decoding · same text ✓ 42 tokens" in first
            await pilot.press("r")
            screen = await compared(app, pilot)
            assert screen.other is not None
            assert screen.other.method == "pld"
            shown = picture(app)
            assert "pld · live" in shown
            assert ", eagle2 against pld · same text ✓ 42 tokens" in shown
            await pilot.press("y")
            await wait_until(lambda: app.clipboard != first)
            assert "pld      42 tokens" in app.clipboard
            for method in ("lookahead", "none"):
                await pilot.press("r")
                assert (await compared(app, pilot)).method == method
            await pilot.press("escape")
            assert replies(app) == [SKY]
            assert "×1.36 vs plain 54.1" in picture(app)

    run(test)
