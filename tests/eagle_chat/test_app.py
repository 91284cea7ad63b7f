"""The chat application, driven by keys, with a scripted session."""

import os
import subprocess
import sys
import threading
import time

import pytest
from textual import events

from eagle_chat.app import EagleChatApp
from eagle_chat.errors import EXIT_USAGE, UsageError
from eagle_chat.events import Loading
from eagle_chat.screens.compare import CompareScreen
from eagle_chat.screens.help import HelpScreen
from eagle_chat.widgets.compare import RunColumn
from eagle_chat.widgets.prompt import Prompt
from tests.eagle_chat.app_pilot import chat, picture, prompts, replies, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import INFO, SKY, FakeSession, factory


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


def test_focus_goes_to_the_tree_and_comes_back() -> None:
    """Catches tree keys that type into the prompt, and a prompt one has to look for after each reply."""

    async def test() -> None:
        pace = threading.Semaphore(2)
        async with chat(FakeSession(pace=pace)) as (app, pilot):
            await send(app, pilot, "one")
            assert app.focused is app.chat.tree_view
            pace.release(200)
            await reply_over(app, pilot)
            assert isinstance(app.focused, Prompt)
            await pilot.press("escape")
            assert app.focused is app.chat.tree_view
            await pilot.press("i")
            assert isinstance(app.focused, Prompt)
            assert app.chat.query_one(Prompt).text == ""

    run(test)


def test_a_tree_in_use_keeps_the_focus() -> None:
    """Catches the end of a reply pulling somebody out of the tree they were reading."""

    async def test() -> None:
        pace = threading.Semaphore(2)
        async with chat(FakeSession(pace=pace)) as (app, pilot):
            await send(app, pilot, "one")
            await pilot.press("down")
            pace.release(200)
            await reply_over(app, pilot)
            assert app.focused is app.chat.tree_view

    run(test)


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
            await pilot.press("escape")
            assert app.screen is app.chat
            assert replies(app) == [SKY]

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
        async with chat(FakeSession(), size=(120, 80)) as (app, pilot):
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
            colours = {
                colour.name
                for strip in app.screen._compositor.render_strips()
                for segment in strip if segment.style
                for colour in (segment.style.color, segment.style.bgcolor) if colour is not None
            }  # fmt: skip
            assert colours <= {"default"}

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
