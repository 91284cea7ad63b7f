"""Saved conversations on screen: recorded by themselves, listed, searched, resumed, exported, deleted."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from eagle_chat.app import EagleChatApp
from eagle_chat.choices import Choices
from eagle_chat.conversation_recorder import Recorder
from eagle_chat.conversations import Library, SavedConversation
from eagle_chat.documents import html
from eagle_chat.events import RoundDone
from eagle_chat.pictures import colours
from eagle_chat.saved_choices import saved_choices
from eagle_chat.screens.conversations import ConversationsScreen
from tests.eagle_chat.app_pilot import (
    chat,
    picture,
    prompts,
    replies,
    reply_over,
    run,
    send,
    wait_until,
)
from tests.eagle_chat.fake_session import INFO, SKY, FakeSession

SMALL = (80, 24)


@pytest.fixture
def library(data_folder: Path) -> Library:
    return Library()


def hold(library: Library, *asked: str, text: str = SKY, rounds: int = 999) -> str:
    """A conversation of an earlier day, its last reply cut off after `rounds`; its id."""
    session, recorder = FakeSession(text), Recorder(library)
    for prompt in asked:
        for event in session.ask(prompt, seed=7, stop=threading.Event()):
            recorder.take(event, session.info)
            if prompt == asked[-1] and isinstance(event, RoundDone) and event.record.index == rounds:
                break
    assert recorder.conversation is not None
    return recorder.conversation.id


def shown(app: EagleChatApp) -> list[str]:
    """First lines of the list."""
    return [line.strip() for line in picture(app).splitlines()[2:-3:2] if line.strip()]


async def opened(app: EagleChatApp, pilot: Pilot[None]) -> ConversationsScreen:
    """The list, once it was read."""
    await pilot.press("ctrl+o")
    await wait_until(lambda: isinstance(app.screen, ConversationsScreen) and "reading" not in picture(app))
    assert isinstance(app.screen, ConversationsScreen)
    return app.screen


def only(library: Library) -> SavedConversation:
    (found,), problems = library.all()
    assert problems == []
    return found


def test_a_conversation_is_there_while_it_goes_on(library: Library) -> None:
    """Catches a reply that is saved only when it is over, and chats that end up in one file."""

    async def test() -> None:
        pace = threading.Semaphore(5)
        async with chat(FakeSession(pace=pace), size=SMALL, recorder=Recorder(library)) as (app, pilot):
            await send(app, pilot, "one")
            await wait_until(lambda: replies(app) and "blue because" in replies(app)[0])
            assert only(library).turns[0].cut_off
            assert only(library).turns[0].reply.startswith(replies(app)[0])
            pace.release(100)
            await reply_over(app, pilot)
            assert only(library).turns[0].reply == SKY
            await pilot.press("ctrl+n")
            pace.release(100)
            await send(app, pilot, "two")
            await reply_over(app, pilot)
            assert [each.title for each in library.all()[0]] == ["two", "one"]

    run(test)


def test_resuming_one_of_many(library: Library) -> None:
    """Catches a list in the wrong order, a blind search, and a model that forgot what was said."""
    hold(library, "Name a river", text="The Rhône.")
    hold(library, "Why is the sky blue?", "And the sea?")

    async def test() -> None:
        session = FakeSession("Because.")
        async with chat(session, size=SMALL, recorder=Recorder(library)) as (app, pilot):
            await opened(app, pilot)
            assert shown(app) == ["Why is the sky blue?", "Name a river"]
            await pilot.press("slash", *"rhône", "enter")
            await wait_until(lambda: app.screen is app.chat)
            await reply_over(app, pilot)
            assert (prompts(app), replies(app)) == (["Name a river"], ["The Rhône."])
            assert "1 turn: the next prompt has them read" in picture(app)
            assert "2 tokens · 37.7 tok/s · τ 1.00 · eagle2 · seed 7" in picture(app)
            await send(app, pilot, "Why?")
            await reply_over(app, pilot)
            assert [message["content"] for message in session.messages] == [
                "Name a river", "The Rhône.", "Why?", "Because.",
            ]  # fmt: skip
            newest = library.all()[0][0]
            assert [turn.prompt for turn in newest.turns] == ["Name a river", "Why?"]
            assert len(library.all()[0]) == 2

    run(test)


def test_choosing_the_one_on_screen_leaves_it_as_it_is(library: Library) -> None:
    """Catches a conversation that loses its rounds, and the tree its picture, by looking at the list."""

    async def test() -> None:
        async with chat(FakeSession(), size=SMALL, recorder=Recorder(library)) as (app, pilot):
            await send(app, pilot, "one")
            await reply_over(app, pilot)
            await opened(app, pilot)
            await pilot.press("enter")
            await wait_until(lambda: app.screen is app.chat)
            assert app.feed.reply is not None
            assert app.feed.reply.rounds
            assert app.chat.tree_view.record is not None

    run(test)


def test_a_resumed_reply_can_be_made_anew(library: Library) -> None:
    """Catches f5 that is refused after a resume, or leaves two replies; a comparison without rounds."""
    hold(library, "one", "two")

    async def test() -> None:
        async with chat(
            FakeSession(), size=SMALL, recorder=Recorder(library), resume=library.find("last")
        ) as (
            app,
            pilot,
        ):
            await reply_over(app, pilot)
            await pilot.press("ctrl+r")
            assert app.screen is app.chat
            assert "f5 makes it anew" in str(app.chat.prompt_bar.border_title)
            await pilot.press("f5")
            await wait_until(lambda: len(replies(app)) == 2 and replies(app)[1].startswith("Again"))
            await reply_over(app, pilot)
            assert prompts(app) == ["one", "two"]
            assert [turn.reply for turn in only(library).turns] == [SKY, f"Again: {SKY}"]

    run(test)


def test_after_a_crash(library: Library) -> None:
    """Catches a partial reply that is lost, or taken for a whole one."""
    hold(library, "one", "two", rounds=3)

    async def test() -> None:
        session = FakeSession()
        async with chat(session, size=SMALL, recorder=Recorder(library), resume=library.find("last")) as (
            app,
            pilot,
        ):
            await reply_over(app, pilot)
            assert replies(app) == [SKY, "The sky is blue because of a"]
            assert "cut off: eagle-chat ended before this reply did" in picture(app)
            assert session.messages[-1]["content"] == "The sky is blue because of a"

    run(test)


def test_a_prompt_without_a_word_of_reply_is_given_back(library: Library) -> None:
    """Catches two prompts in a row, which no template takes, and a prompt that is lost with the crash."""
    identifier = hold(library, "one", "a long prompt", rounds=0)
    path = library.path(identifier)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))

    async def test() -> None:
        session = FakeSession()
        async with chat(session, size=SMALL, recorder=Recorder(library), resume=library.find("last")) as (
            app,
            pilot,
        ):
            await reply_over(app, pilot)
            assert prompts(app) == ["one"]
            assert app.chat.prompt_bar.prompt.text == "a long prompt"
            await pilot.press("enter")
            await reply_over(app, pilot)
            assert [turn.prompt for turn in only(library).turns] == ["one", "a long prompt"]

    run(test)


def test_another_model_says_so(library: Library) -> None:
    """Catches a conversation that changes hands without a word."""
    hold(library, "one")

    async def test() -> None:
        session = FakeSession(info=replace(INFO, model="llama3-8b", weights_sha256="1" * 64))
        async with chat(session, size=SMALL, recorder=Recorder(library), resume=library.find("last")) as (
            app,
            pilot,
        ):
            await wait_until(lambda: "held with smollm2-135m; llama3-8b goes on with it" in picture(app))
            await send(app, pilot, "two")
            await reply_over(app, pilot)
            assert only(library).model == "llama3-8b"

    run(test)


def test_a_method_that_does_not_load_leaves_the_conversation(library: Library) -> None:
    """Catches a conversation on screen that the session does not go on with."""
    hold(library, "one")

    async def test() -> None:
        session = FakeSession(info=replace(INFO, method="pld"), damaged="eagle2")
        session.methods = ("none", "eagle2", "pld")
        async with chat(session, size=SMALL, recorder=Recorder(library), resume=library.find("last")) as (
            app,
            pilot,
        ):
            await wait_until(lambda: "The head of eagle2 is damaged." in picture(app))
            await send(app, pilot, "two")
            await reply_over(app, pilot)
            assert [message["content"] for message in session.messages][:3] == ["one", SKY, "two"]
            assert session.choices.method == "pld"

    run(test)


def test_deleting_asks_and_keeps_the_one_on_screen(library: Library) -> None:
    """Catches one key that destroys a conversation, the wrong one, or the one that is being written."""
    hold(library, "two")

    async def test() -> None:
        async with chat(FakeSession(), size=SMALL, recorder=Recorder(library)) as (app, pilot):
            await send(app, pilot, "one")
            await reply_over(app, pilot)
            await opened(app, pilot)
            assert shown(app) == ["one on screen", "two"]
            await pilot.press("d")
            assert "is the conversation on screen" in picture(app)
            await pilot.press("down", "d")
            assert "Delete “two” for good?" in picture(app)
            await pilot.press("enter", "d", "escape", "d", "n")
            assert len(library.all()[0]) == 2
            await pilot.press("d", "y")
            await pilot.pause()
            assert shown(app) == ["one on screen"]
            assert [each.title for each in library.all()[0]] == ["one"]

    run(test)


def test_exporting_from_the_list(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an export that overwrites an earlier one, or cannot be found."""
    identifier = hold(library, "one")
    monkeypatch.chdir(tmp_path)

    async def test() -> None:
        async with chat(FakeSession(), size=SMALL, recorder=Recorder(library)) as (app, pilot):
            await opened(app, pilot)
            await pilot.press("x")
            await pilot.pause()
            assert f"Exported to eagle-chat-{identifier}.md" in picture(app)
            await pilot.press("x")
            for name in (f"eagle-chat-{identifier}.md", f"eagle-chat-{identifier}-2.md"):
                assert SKY in (tmp_path / name).read_text(encoding="utf-8")

    run(test)


def test_a_disk_that_cannot_be_written(tmp_path: Path) -> None:
    """Catches a reply that is lost with the disk, and a chat that ends over it."""
    (tmp_path / "file").write_text("")

    async def test() -> None:
        recorder = Recorder(Library(tmp_path / "file" / "conversations"))
        async with chat(FakeSession(), size=SMALL, recorder=recorder) as (app, pilot):
            await send(app, pilot, "one")
            await reply_over(app, pilot)
            await send(app, pilot, "two")
            await reply_over(app, pilot)
            assert replies(app) == [SKY, SKY]
            assert "This chat goes on, but is not saved: Not a directory" in " ".join(
                str(note.content) for note in app.chat.transcript.query(".note").results(Static)
            )

    run(test)


def test_the_list_waits_for_the_reply(library: Library) -> None:
    """Catches a conversation changed under a reply that still runs."""

    async def test() -> None:
        pace = threading.Semaphore(3)
        async with chat(FakeSession(pace=pace), size=SMALL, recorder=Recorder(library)) as (app, pilot):
            await send(app, pilot, "one")
            await wait_until(lambda: replies(app))
            await pilot.press("ctrl+o")
            assert app.screen is app.chat
            assert "Wait for the reply" in str(app.chat.prompt_bar.border_title)
            pace.release(100)
            await reply_over(app, pilot)

    run(test)


def test_a_resumed_reply_is_kept_by_an_export(library: Library) -> None:
    """Catches a page without what was said earlier, and a reply that h empties: its rounds are not known."""
    hold(library, "Name a river", text="The <Rhône>.")

    async def test() -> None:
        resumed = library.all()[0][0]
        async with chat(FakeSession("Because."), recorder=Recorder(library), resume=resumed) as (app, pilot):
            await send(app, pilot, "Why?")
            await reply_over(app, pilot)
            model, turns = app.written()
            assert [turn.text for turn in turns] == ["The <Rhône>.", "Because."]
            page = html(turns, model, colours())
            assert page.count("The &lt;Rhône&gt;.") == 1
            await pilot.press("tab", "h")
            await pilot.pause()
            assert replies(app)[0] == "The <Rhône>."
            assert "Rhône" in picture(app)

    run(test)


def test_the_columns_stay_when_the_model_is_there(library: Library) -> None:
    """Catches a conversation read while the model loads whose lines break elsewhere once that is over."""
    hold(library, "Why is the sky blue?")

    async def test() -> None:
        loaded = threading.Event()
        session = FakeSession(info=replace(INFO, sized=True))

        def make(progress: object) -> FakeSession:
            loaded.wait(8)
            return session

        app = EagleChatApp(make, title="x", recorder=Recorder(library))
        async with app.run_test(size=(160, 50)) as pilot:
            await opened(app, pilot)
            await pilot.press("enter")
            await wait_until(lambda: replies(app) == [SKY])
            await pilot.pause()
            before = app.chat.transcript.size.width
            loaded.set()
            await wait_until(lambda: app.feed.info is not None)
            await pilot.pause()
            assert app.chat.transcript.size.width == before
            app.worker.quit()

    run(test)


def test_how_it_was_decoded_comes_back(library: Library) -> None:
    """Catches a chat that goes on at another temperature, and a flag that the saved chat overrules."""
    wanted = Choices("pld", temperature=0.7, top_p=0.9, seed=5, max_new_tokens=60)

    async def held() -> None:
        async with chat(FakeSession(), size=SMALL, recorder=Recorder(library)) as (app, pilot):
            for command in ("/temp 0.7", "/top-p 0.9", "/seed 5", "/max 60", "/method pld"):
                await send(app, pilot, command)
            await send(app, pilot, "one")
            await reply_over(app, pilot)

    async def resumed() -> None:
        session, last = FakeSession(), library.find("last")
        recorder = Recorder(library, given={"top_p"})
        async with chat(session, size=SMALL, recorder=recorder, resume=last) as (app, pilot):
            await wait_until(lambda: "T=0.7" in picture(app))
            assert session.choices == replace(wanted, top_p=1.0)
            await send(app, pilot, "/seed")
            assert "/seed is 5 now" in str(app.chat.prompt_bar.border_title)

    run(held)
    run(resumed)


def test_a_method_that_is_not_here_stays_away() -> None:
    """Catches a chat held with another head that cannot be opened, and values that no parameter can have."""
    session = {"method": "medusa", "temperature": "hot", "seed": -1, "top_p": 0.5}
    now = Choices("eagle2", temperature=0.3)
    assert saved_choices(session, now, ("none", "eagle2")) == replace(now, top_p=0.5)


def test_a_resumed_reply_says_once_that_it_was_stopped(library: Library) -> None:
    """Catches the numbers of a saved reply that end in the word they began with."""

    async def hold_stopped() -> None:
        pace = threading.Semaphore(5)
        async with chat(FakeSession(pace=pace), size=SMALL, recorder=Recorder(library)) as (app, pilot):
            await send(app, pilot, "sky")
            await wait_until(lambda: app.reply is not None and len(app.reply.rounds) == 5)
            await pilot.press("escape")
            await reply_over(app, pilot)

    async def test() -> None:
        await hold_stopped()
        async with chat(
            FakeSession(), size=SMALL, recorder=Recorder(library), resume=library.find("last")
        ) as (app, _):
            assert str(app.chat.query_one(".numbers", Static).content).count("stopped") == 1

    run(test)
