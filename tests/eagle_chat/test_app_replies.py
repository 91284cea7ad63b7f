"""Replies on screen: streaming, stopping, regenerating, failing."""

import threading

import pytest

from eagle_chat.widgets.prompt import Prompt
from tests.eagle_chat.app_pilot import chat, picture, prompts, replies, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import SKY, FakeSession


def test_text_streams_while_the_engine_works() -> None:
    """Catches text that appears only when the reply is over."""

    async def test() -> None:
        pace = threading.Semaphore(5)
        async with chat(FakeSession(pace=pace)) as (app, pilot):
            await send(app, pilot, "sky")
            await wait_until(lambda: replies(app) and "blue because" in replies(app)[0])
            await wait_until(lambda: "▶ round 4" in picture(app))
            assert replies(app)[0] != SKY
            pace.release(100)
            await reply_over(app, pilot)
            assert replies(app) == [SKY]

    run(test)


def test_a_thousand_rounds_at_once_lose_no_text() -> None:
    """Catches dropped text when the engine is faster than the screen."""

    async def test() -> None:
        text = "".join(f"w{number}{chr(10) * 2 if number % 50 == 0 else ''} " for number in range(2000))
        async with chat(FakeSession(text)) as (app, pilot):
            await send(app, pilot, "go")
            await reply_over(app, pilot)
            assert app.feed.reply is not None
            assert app.feed.reply.statistics.rounds > 900
            assert replies(app) == [text]

    run(test)


def test_scrolling_back_in_a_long_reply_that_still_runs() -> None:
    """Catches blanks where text was left out of the layout, and a view that jumps back down."""

    async def test() -> None:
        text = "\n\n".join(f"line {number} of a long text" for number in range(400))
        pace = threading.Semaphore(900)
        async with chat(FakeSession(text, pace=pace), size=(80, 24)) as (app, pilot):
            await send(app, pilot, "go")
            await wait_until(lambda: app.feed.reply and app.feed.reply.statistics.rounds > 800)
            await wait_until(lambda: replies(app)[0] == app.feed.reply.text)  # type: ignore[union-attr]
            await pilot.press("i", *["pageup"] * 12)
            await pilot.pause(0.3)
            top = app.chat.transcript.scroll_offset.y
            lines = [line for line in picture(app).splitlines() if "of a long text" in line]
            assert len(lines) >= 3
            pace.release(20)
            await pilot.pause(0.5)
            assert app.chat.transcript.scroll_offset.y == top
            pace.release(5000)
            await reply_over(app, pilot)
            assert replies(app) == [text]

    run(test)


def test_a_chosen_message_stays_in_view_while_the_reply_goes_on() -> None:
    """Catches a page at whose end one reads a message, and which follows the text away from it."""

    async def test() -> None:
        text = "\n\n".join(f"line {number} of a long text" for number in range(400))
        pace = threading.Semaphore(2)
        async with chat(FakeSession(text, pace=pace), size=(160, 50)) as (app, pilot):
            await send(app, pilot, "go")
            await wait_until(lambda: replies(app) and "line" in replies(app)[0])
            app.chat.transcript.focus()
            await pilot.press("k")
            pace.release(400)
            await wait_until(lambda: "line 99 " in replies(app)[0])
            await pilot.pause(0.3)
            assert app.chat.transcript.max_scroll_y > 0 == app.chat.transcript.scroll_offset.y
            pace.release(5000)
            await reply_over(app, pilot)

    run(test)


@pytest.mark.parametrize(
    "text",
    [
        "a [b]c[/b] [link=x] [/] [@click=app.quit()]d",
        "see <div>inside</div> and\n\n<p>block</p>",
        "[ref]: http://example.org\n\nline one\nline two",
        "```python\nprint('[red]')\n```",
        "```\nnever closed",
        "ends in an escape \x1b[31m and \x07 a bell",
    ],
)
def test_whatever_a_model_writes_is_shown(text: str) -> None:
    """Catches markup, HTML and link definitions that vanish, and escape sequences that reach the terminal."""

    async def test() -> None:
        async with chat(FakeSession(text)) as (app, pilot):
            await send(app, pilot, "go")
            await reply_over(app, pilot)
            shown = picture(app).split("tokens ·")[0]
            letters = "".join(filter(str.isalnum, text.replace("```python", "")))
            assert letters in "".join(filter(str.isalnum, shown))
            assert "\x1b" not in shown
            assert app.is_running

    run(test)


def test_code_without_a_fence_keeps_its_shape() -> None:
    """Catches Markdown that eats indentation and line breaks when a streamed reply is finished."""

    async def test() -> None:
        code = "def f(n):\n    while n:\n        n -= 1"
        async with chat(FakeSession(code)) as (app, pilot):
            await send(app, pilot, "loop")
            await reply_over(app, pilot)
            shown = picture(app)
            at = shown.index("def f(n):") - shown.rindex("\n", 0, shown.index("def f(n):"))
            assert f"\n{' ' * (at - 1)}    while n:" in shown
            assert f"\n{' ' * (at - 1)}        n -= 1" in shown

    run(test)


def test_escape_stops_and_keeps_the_text() -> None:
    """Catches a stop that throws the text away, and a session that cannot go on after it."""

    async def test() -> None:
        pace = threading.Semaphore(4)
        session = FakeSession(pace=pace)
        async with chat(session) as (app, pilot):
            await send(app, pilot, "sky")
            await wait_until(lambda: replies(app) and "blue" in replies(app)[0])
            await pilot.press("escape")
            await reply_over(app, pilot)
            assert replies(app)[0].startswith("The sky is blue")
            assert replies(app)[0] != SKY
            assert "■ stopped" in picture(app)
            assert isinstance(app.focused, Prompt)
            session.pace = None
            await send(app, pilot, "and again")
            await reply_over(app, pilot)
            assert replies(app)[1] == SKY

    run(test)


def test_new_chat_in_the_middle_of_a_reply() -> None:
    """Catches text of the old reply that runs on in the new conversation."""

    async def test() -> None:
        pace = threading.Semaphore(4)
        session = FakeSession(pace=pace)
        async with chat(session) as (app, pilot):
            await send(app, pilot, "one")
            await wait_until(lambda: replies(app) and "blue" in replies(app)[0])
            await pilot.press("ctrl+n")
            await wait_until(lambda: session.new_chats == 1 and not app.busy)
            await pilot.pause()
            assert replies(app) == prompts(app) == []
            session.pace = None
            await send(app, pilot, "two")
            await reply_over(app, pilot)
            assert replies(app) == [SKY]

    run(test)


def test_regenerate_replaces_the_reply_with_a_new_seed() -> None:
    """Catches a second answer under the first, or the same seed again."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("f5")
            await wait_until(lambda: len(session.seeds) == 2)
            await reply_over(app, pilot)
            assert replies(app) == [f"Again: {SKY}"]
            assert prompts(app) == ["sky"]
            assert "seed 1235" in picture(app)

    run(test)


def test_an_exception_in_the_middle_of_a_reply() -> None:
    """Catches an engine error that ends the app, hides itself, or takes the text so far with it."""

    async def test() -> None:
        session = FakeSession(fail_at=4)
        async with chat(session) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            assert replies(app)[0].startswith("The sky is blue")
            assert "shapes [8, 576] do not match" in picture(app)
            session.fail_at = None
            await send(app, pilot, "again")
            await reply_over(app, pilot)
            assert replies(app)[1] == SKY

    run(test)


def test_a_reply_that_failed_is_asked_for_again() -> None:
    """Catches another reply to the prompt before it, which is the last the session knows of."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await send(app, pilot, "one")
            await reply_over(app, pilot)
            session.fail_at = 2
            await send(app, pilot, "two")
            await reply_over(app, pilot)
            session.fail_at = None
            await pilot.press("f5")
            await wait_until(lambda: len(session.asked) == 3)
            await reply_over(app, pilot)
            assert session.asked == ["one", "two", "two"]
            assert prompts(app) == ["one", "two"]
            assert replies(app) == [SKY, SKY]

    run(test)
