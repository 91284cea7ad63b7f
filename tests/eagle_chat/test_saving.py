"""What `/save`, `/load` and the comparison keep and bring back."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle_chat.app import EagleChatApp
from eagle_chat.conversation_recorder import Recorder
from eagle_chat.conversations import Library
from eagle_chat.recorded import load_recording
from eagle_chat.screens.compare import CompareScreen
from eagle_chat.screens.conversations import ConversationsScreen
from tests.eagle_chat.app_pilot import chat, picture, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import SKY, FakeSession


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(app: EagleChatApp) -> str:
    """The sentence above the prompt."""
    return str(app.chat.prompt_bar.border_title or "")


def test_a_reply_of_the_chat_is_replayed(here: Path) -> None:
    """Catches a chat whose replies cannot be taken along as traces, or that keeps another reply's rounds."""

    async def test() -> None:
        async with chat(FakeSession(), size=(160, 40)) as (app, pilot):
            await send(app, pilot, "/save sky.jsonl")
            assert "no reply to save" in said(app)
            for prompt in ("First?", "Why?"):
                await send(app, pilot, prompt)
                await reply_over(app, pilot)
            for file in ("sky.jsonl", "sky.jsonl.gz", "sky.md", "sky.html", "sky.svg", "sky.png"):
                app.chat.prompt_bar.prompt.clear()
                await send(app, pilot, f"/save {file}")
                assert f"Saved {file}" in said(app)
            (here / "my traces").mkdir()
            await send(app, pilot, "/save my traces/sky.jsonl")
            assert "`eagle-chat replay 'my traces/sky.jsonl'` shows it again" in said(app)
            app.chat.prompt_bar.prompt.clear()
            await send(app, pilot, "/save")
            assert "Saved eagle-chat-trace-" in said(app)
            await send(app, pilot, "/save sky.md")
            assert "is there already" in said(app)
            app.chat.prompt_bar.prompt.clear()
            await send(app, pilot, "/save sky.pdf")
            assert "the ending says what to save" in said(app)
            rounds = app.reply.rounds if app.reply else []
            trace = load_recording(Path("sky.jsonl.gz"))
            assert trace.header["prompt"] == "Why?"
            assert [done.record.new for done in trace.rounds] == [record.new for record in rounds]
            assert trace.summary is not None
            assert trace.summary["text"] == SKY

    run(test)
    assert load_recording(here / "sky.jsonl").rounds == load_recording(here / "sky.jsonl.gz").rounds
    assert load_recording(next(here.glob("eagle-chat-trace-*.jsonl.gz"))).header["prompt"] == "Why?"
    assert (here / "sky.md").read_text().count(SKY) == 2
    assert "draft tree" in (here / "sky.svg").read_text()


def test_both_runs_of_a_comparison_are_kept(here: Path) -> None:
    """Catches a race in the chat that nobody can show again, or a plain run said to have had a head."""

    async def test() -> None:
        async with chat(FakeSession(), size=(120, 40)) as (app, pilot):
            await send(app, pilot, "Why?")
            await reply_over(app, pilot)
            await pilot.press("ctrl+r")
            await wait_until(lambda: isinstance(app.screen, CompareScreen) and app.screen.verdict is not None)
            await pilot.press("x")
            await pilot.pause()

    run(test)
    drafted = load_recording(next(here.glob("eagle-chat-race-*-eagle2.jsonl.gz")))
    plain = load_recording(next(here.glob("eagle-chat-race-*-none.jsonl.gz")))
    assert (drafted.info.method, plain.info.method) == ("eagle2", "none")
    assert (drafted.info.nodes, plain.info.nodes) == (8, 0)
    assert drafted.header["seed"] == plain.header["seed"]


def test_load_searches_the_saved_conversations(here: Path) -> None:
    """Catches /load that forgets the words, or takes a trace for a conversation."""

    async def test() -> None:
        recorder = Recorder(Library(here))
        async with chat(FakeSession(), size=(120, 40), recorder=recorder) as (app, pilot):
            for prompt in ("About rivers", "About clouds"):
                await send(app, pilot, prompt)
                await reply_over(app, pilot)
                await pilot.press("ctrl+n")
            await send(app, pilot, "/load rivers")
            await wait_until(lambda: isinstance(app.screen, ConversationsScreen))
            await wait_until(lambda: "About rivers" in picture(app))
            assert "About clouds" not in picture(app)
            await pilot.press("enter")
            await wait_until(lambda: app.screen is app.chat)
            assert "About rivers" in picture(app)
            await send(app, pilot, "/load sky.jsonl")
            assert "eagle-chat replay sky.jsonl" in said(app)

    run(test)
