"""Messages of the past: choosing, editing, versions; prompt history and the user's own editor."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from eagle_chat.app import EagleChatApp
from eagle_chat.errors import EagleChatError
from eagle_chat.external_editor import edit_text
from eagle_chat.widgets.prompt import Prompt
from tests.eagle_chat.app_pilot import chat, picture, prompts, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import SKY, FakeSession


async def converse(app: EagleChatApp, pilot: Pilot[None], *texts: str) -> None:
    for text in texts:
        await send(app, pilot, text)
        await reply_over(app, pilot)


def hint(app: EagleChatApp) -> str:
    return str(app.chat.prompt_bar.border_title or "")


def test_an_edited_message_replaces_all_from_there() -> None:
    """Catches an edit that leaves later turns in the model's or the reader's sight, or earlier ones out."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await converse(app, pilot, "one", "two", "three")
            await pilot.press("shift+tab", "up", "up", "e")
            prompt = app.chat.query_one(Prompt)
            assert prompt.text == "two"
            assert "message 2 of 3" in hint(app)
            await pilot.press(*" b", "enter")
            await wait_until(lambda: session.asked[-1] == "two b")
            await reply_over(app, pilot)
            assert session.restored == [["one"]]
            assert prompts(app) == ["one", "two b"]
            assert [entry.prompt for entry in app.feed.conversation.entries] == ["one", "two b"]

    run(test)


def test_versions_before_an_edit_can_be_gone_back_to() -> None:
    """Catches an edit that destroys what was there, and a version that the session does not follow."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await converse(app, pilot, "one", "two")
            await send(app, pilot, "/edit 1")
            app.chat.query_one(Prompt).text = "uno"
            await pilot.press("enter")
            await reply_over(app, pilot)
            await send(app, pilot, "/versions")
            await reply_over(app, pilot)
            assert prompts(app) == ["one", "two"]
            assert SKY[:30] in picture(app)
            assert session.restored == [[], ["one", "two"]]
            await converse(app, pilot, "three")
            assert prompts(app) == ["one", "two", "three"]
            await send(app, pilot, "/versions")
            await reply_over(app, pilot)
            assert prompts(app) == ["uno"]
            await send(app, pilot, "/versions")
            await reply_over(app, pilot)
            assert prompts(app) == ["one", "two", "three"]

    run(test)


def test_leaving_an_edit_gives_back_what_was_being_written() -> None:
    """Catches a draft lost to an edit that was not wanted, and a later message that replaces something."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await converse(app, pilot, "one")
            prompt = app.chat.query_one(Prompt)
            prompt.text = "a draft"
            app.action_command("/edit")
            await pilot.pause()
            assert prompt.text == "one"
            await pilot.press("escape")
            await pilot.pause()
            assert prompt.text == "a draft"
            assert hint(app) == ""
            await pilot.press("enter")
            await reply_over(app, pilot)
            assert session.restored == []
            assert prompts(app) == ["one", "a draft"]

    run(test)


def test_an_edited_slash_stays_text() -> None:
    """Catches a message about a path that runs as a command when it is edited."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await converse(app, pilot, "//usr?")
            await send(app, pilot, "/edit")
            assert app.chat.query_one(Prompt).text == "//usr?"
            await pilot.press("enter")
            await reply_over(app, pilot)
            assert session.asked == ["/usr?", "/usr?"]

    run(test)


def test_copying_a_chosen_message_and_its_code() -> None:
    """Catches the keys of the conversation copying another message, or only ever its first block."""

    async def test() -> None:
        session = FakeSession("Two:\n\n```\none\n```\n\n```\ntwo\n```\n")
        async with chat(session) as (app, pilot):
            await converse(app, pilot, "code")
            await pilot.press("shift+tab", "y")
            await pilot.pause()
            assert app.clipboard == "code"
            await pilot.press("c")
            assert "no code block" in hint(app)
            await pilot.press("down")
            copied = []
            for _ in range(3):
                await pilot.press("c")
                await pilot.pause()
                copied.append(app.clipboard)
            assert copied == ["one", "two", "one"]

    run(test)


def test_nothing_to_edit() -> None:
    """Catches a failure where there is no message, or no such one."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            await pilot.press("shift+tab", "e", "up", "y", "c")
            await send(app, pilot, "/edit")
            assert "no message to edit" in hint(app)
            await send(app, pilot, "/versions")
            assert "one version only" in hint(app)
            app.chat.query_one(Prompt).clear()
            await converse(app, pilot, "one")
            for wrong in ("0", "2", "x", "²"):
                await send(app, pilot, f"/edit {wrong}")
                assert f"1 to 1, not {wrong}" in hint(app)

    run(test)


def test_prompt_history() -> None:
    """Catches up and down that leave a text of several lines, or lose what was being written."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            await converse(app, pilot, "one", "two\nlines")
            prompt = app.chat.query_one(Prompt)
            await pilot.press(*"new", "up")
            assert prompt.text == "two\nlines"
            await pilot.press("up")
            assert prompt.text == "two\nlines"
            await pilot.press("up")
            assert prompt.text == "one"
            await pilot.press("down", "down", "down")
            assert prompt.text == "new"

    run(test)


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that stands for $EDITOR; its path has a space."""
    script = tmp_path / "my editor.py"
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"'{sys.executable}' '{script}'")
    monkeypatch.setattr(sys, "__stderr__", None)  # under pytest it has no descriptor
    return script


def test_ones_own_editor(editor: Path) -> None:
    """Catches a text that comes back with a line more, or does not get there as it was."""
    editor.write_text(
        "import sys, pathlib\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "file.write_text(file.read_text(encoding='utf-8').upper() + '\\n', encoding='utf-8')\n"
    )
    assert edit_text("für\nEins") == "FÜR\nEINS"


def test_editors_that_fail(editor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a traceback where the editor is missing, fails, or is written wrong."""
    editor.write_text("raise SystemExit(3)")
    with pytest.raises(EagleChatError, match="ended with code 3, so the prompt stays"):
        edit_text("text")
    for wrong in ("no-such-editor", "an 'open quote"):
        monkeypatch.setenv("EDITOR", wrong)
        with pytest.raises(EagleChatError, match="set EDITOR"):
            edit_text("text")


def test_the_prompt_after_an_editor(editor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a prompt that an editor which failed empties, and one that is sent on the way back."""
    editor.write_text("import sys; open(sys.argv[1], 'w').write('from outside')")

    @contextlib.contextmanager
    def suspend(_: EagleChatApp) -> Iterator[None]:
        yield

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            prompt = app.chat.query_one(Prompt)
            await pilot.press(*"hi", "ctrl+g")
            assert prompt.text == "hi"  # there is no terminal to leave here
            monkeypatch.setattr(EagleChatApp, "suspend", suspend)
            await pilot.press("ctrl+g")
            assert prompt.text == "from outside"
            monkeypatch.setitem(os.environ, "EDITOR", "no-such-editor")
            await pilot.press("ctrl+g")
            assert prompt.text == "from outside"
            assert session.asked == []

    run(test)
