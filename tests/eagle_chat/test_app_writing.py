"""Writing and sending prompts: keys, pasting, waiting, focus."""

import threading

from textual import events

from eagle_chat.app import EagleChatApp
from eagle_chat.events import Loading
from eagle_chat.widgets.prompt import Prompt
from tests.eagle_chat.app_pilot import chat, picture, prompts, replies, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import SKY, FakeSession


def hint(app: EagleChatApp) -> str:
    return str(app.chat.prompt_bar.border_title or "")


def test_typing_several_lines_and_sending() -> None:
    """Catches enter that breaks the line, ctrl+j that sends, and a prompt that changes on its way."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await pilot.press(*"one", "ctrl+j", *"two", "shift+enter", *"[b]")
            assert app.chat.query_one(Prompt).size.height == 3
            await pilot.press("enter")
            await reply_over(app, pilot)
            assert session.asked == ["one\ntwo\n[b]"]
            assert prompts(app) == session.asked
            assert replies(app) == [SKY]
            assert "[b]" in picture(app)
            assert "42 tokens · 73.7 tok/s · τ 1.95 · eagle2 · seed 1234" in picture(app)

    run(test)


def test_a_burst_of_keys_is_taken_in_order() -> None:
    """Catches enter overtaking the letters typed just before it, as priority bindings do."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, _):
            for key in ("h", "i", "ctrl+j", "x", "enter"):
                app.post_message(events.Key(key, key if len(key) == 1 else None))
            await wait_until(lambda: session.asked)
            assert session.asked == ["hi\nx"]

    run(test)


def test_a_burst_of_editing_keys_is_taken_in_order() -> None:
    """Catches ctrl+u and backspace that come after the letters typed behind them, where the app is busy."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, _):
            app.chat.prompt_bar.prompt.put("left from before")
            for key in ("ctrl+u", *"teh", "backspace", "backspace", *"he", "left", *"g", "enter"):
                app.post_message(events.Key(key, key if len(key) == 1 else None))
            await wait_until(lambda: session.asked)
            assert session.asked == ["thge"]

    run(test)


def test_pasting_never_sends() -> None:
    """Catches a pasted line break that is taken for enter."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            app.post_message(events.Paste("first\nsecond\n"))
            await pilot.pause()
            assert app.chat.query_one(Prompt).text == "first\nsecond\n"
            assert session.asked == []

    run(test)


def test_an_empty_prompt_is_not_sent() -> None:
    """Catches blank prompts that reach the model, and a key that does nothing without a word."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await send(app, pilot, "  \n ")
            assert "write something first" in hint(app)
            assert session.asked == []

    run(test)


def test_the_prompt_grows_to_six_lines() -> None:
    """Catches a prompt that pushes the conversation off the screen."""

    async def test() -> None:
        async with chat(FakeSession(), size=(80, 24)) as (app, pilot):
            app.chat.query_one(Prompt).text = "\n".join(map(str, range(30)))
            await pilot.pause()
            assert app.chat.query_one(Prompt).size.height == 6

    run(test)


def test_a_prompt_sent_during_a_reply_waits_for_it() -> None:
    """Catches prompts that are lost, run in the middle of a reply, or pile up unseen."""

    async def test() -> None:
        pace = threading.Semaphore(2)
        session = FakeSession(pace=pace)
        async with chat(session) as (app, pilot):
            await send(app, pilot, "one")
            await send(app, pilot, "two")
            assert "sent next: two" in hint(app)
            await send(app, pilot, "three")
            assert "One prompt already waits" in hint(app)
            assert app.chat.query_one(Prompt).text == "three"
            assert session.asked == ["one"]
            pace.release(200)
            await wait_until(lambda: len(session.asked) == 2)
            await reply_over(app, pilot)
            assert session.asked == ["one", "two"]
            assert replies(app) == [SKY, SKY]

    run(test)


def test_stopping_gives_a_waiting_prompt_back() -> None:
    """Catches a queued prompt that runs although the user stopped, or that disappears."""

    async def test() -> None:
        pace = threading.Semaphore(2)
        session = FakeSession(pace=pace)
        async with chat(session) as (app, pilot):
            await send(app, pilot, "one")
            await send(app, pilot, "two")
            await pilot.press("escape")
            await reply_over(app, pilot)
            assert session.asked == ["one"]
            assert app.chat.query_one(Prompt).text == "two"

    run(test)


def test_a_prompt_sent_while_loading_waits_for_the_model() -> None:
    """Catches a prompt that is refused or lost during the seconds of loading."""

    async def test() -> None:
        loaded = threading.Event()
        session = FakeSession()

        def slow(progress) -> FakeSession:  # type: ignore[no-untyped-def]
            progress(Loading("loading weights", 49_000_000, 98_362_432))
            loaded.wait(5)
            return session

        app = EagleChatApp(slow, title="smollm2-135m")
        async with app.run_test(size=(100, 30)) as pilot:
            await wait_until(lambda: "loading weights  49/98 MB  49 %" in picture(app))
            await send(app, pilot, "early")
            assert "sent next: early" in hint(app)
            loaded.set()
            await wait_until(lambda: session.asked == ["early"])
            await reply_over(app, pilot)
            assert replies(app) == [SKY]
            app.worker.quit()

    run(test)


def test_what_is_typed_during_a_reply_is_kept() -> None:
    """Catches letters that are taken for shortcuts while a reply runs, and a prompt garbled by that."""

    async def test() -> None:
        pace = threading.Semaphore(2)
        async with chat(FakeSession(pace=pace)) as (app, pilot):
            await send(app, pilot, "one")
            await pilot.press(*"tell", "space", *"it")
            pace.release(200)
            await reply_over(app, pilot)
            await pilot.press("space", *"why")
            assert app.chat.query_one(Prompt).text == "tell it why"

    run(test)


def test_the_tree_takes_keys_when_asked_to() -> None:
    """Catches a tree that keys cannot reach during a reply, and letters that get lost there."""

    async def test() -> None:
        pace = threading.Semaphore(2)
        async with chat(FakeSession(pace=pace)) as (app, pilot):
            await send(app, pilot, "one")
            while app.focused is not app.chat.tree_view:
                await pilot.press("tab")
            view = app.chat.tree_view.view
            await pilot.press("t")
            assert app.chat.tree_view.view != view
            await pilot.press(*"words")
            assert isinstance(app.focused, Prompt)
            assert app.chat.query_one(Prompt).text == "words"
            pace.release(200)
            await reply_over(app, pilot)
            await pilot.press("escape")
            assert app.focused is app.chat.tree_view
            await pilot.press("i")
            assert isinstance(app.focused, Prompt)

    run(test)
