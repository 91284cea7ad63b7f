"""How the user wants the screen to look: their themes, the one that is remembered, their keys, ASCII."""

import json
from pathlib import Path

import pytest

from eagle_chat.app import EagleChatApp
from eagle_chat.errors import UsageError
from eagle_chat.keys import is_key, keymap, our_bindings
from eagle_chat.look import Look
from eagle_chat.screens.compare import CompareScreen
from eagle_chat.screens.help import HelpScreen
from tests.eagle_chat.app_pilot import chat, colours, picture, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import FakeSession, factory
from tests.test_themes import NAMES

MINE = 'name = "mine"\n[colors]\nprimary = "#{}"\nbackground = "#{}"\n'


def app_with(look: Look, theme: str | None = None) -> EagleChatApp:
    return EagleChatApp(factory(FakeSession()), theme=theme, look=look)


def warnings(app: EagleChatApp) -> list[str]:
    return [each.message for each in app._notifications]


def test_a_saved_theme_is_shown_at_once_and_a_broken_one_is_not(tmp_path: Path) -> None:
    """Catches an edit that needs a restart, and a mistake in one file that costs the theme or the app."""
    file = tmp_path / "mine.toml"
    file.write_text(MINE.format("123456", "101010"))
    (tmp_path / "other.toml").write_text("name = ")

    async def test() -> None:
        look = Look(themes=tmp_path)
        async with chat(FakeSession(), theme="mine", look=look) as (app, pilot):
            assert "#101010" in colours(app)
            assert [str(tmp_path / "other.toml") in each for each in warnings(app)] == [True]
            file.write_text(MINE.format("123456", "202830"))
            app.reload_themes()
            await pilot.pause(0.1)
            assert "#202830" in colours(app)
            file.write_text(MINE.format("123456", "blue-ish!"))
            app.reload_themes()
            await pilot.pause(0.1)
            assert "#202830" in colours(app)
            assert str(file) in warnings(app)[-1]
            assert "'colors.background'" in warnings(app)[-1]
            count = len(warnings(app))
            app.reload_themes()
            assert len(warnings(app)) == count

    run(test)


def test_the_users_theme_replaces_ours(tmp_path: Path) -> None:
    """Catches a user's own eagle-dark that ours hides."""
    (tmp_path / "dark.toml").write_text(MINE.format("123456", "101010").replace("mine", "eagle-dark"))
    assert app_with(Look(themes=tmp_path)).current_theme.primary == "#123456"
    assert app_with(Look(themes=tmp_path / "absent")).current_theme.primary != "#123456"


def test_the_theme_chosen_on_the_screen_is_remembered(tmp_path: Path) -> None:
    """Catches a choice that is lost, beats --theme, or outlives what the configuration said."""
    look = Look(configured="nord", memory=tmp_path / "state" / "look.json")

    async def test() -> None:
        async with chat(FakeSession(), look=look) as (app, pilot):
            assert app.theme == "nord"
            app.search_themes()
            await pilot.pause()
            await pilot.press(*"eagle-light")
            await pilot.pause(0.3)
            await pilot.press("enter")
            await wait_until(lambda: app.theme == "eagle-light")
            await wait_until(lambda: look.remembered() == "eagle-light")

    async def asked_for() -> None:
        async with chat(FakeSession(), look=look, theme="gruvbox") as (app, pilot):
            app._watch_theme(app.theme)  # as a saved file does
            await pilot.pause(0.2)

    run(asked_for)
    assert look.remembered() is None
    run(test)
    assert app_with(look).theme == "eagle-light"
    assert app_with(look, theme="eagle-contrast").theme == "eagle-contrast"
    assert app_with(Look(configured="gruvbox", memory=look.memory)).theme == "gruvbox"


@pytest.mark.parametrize("note", ["", "[]", '{"theme": 3, "configured": null}', "\x00"])
def test_an_unreadable_note_is_none(tmp_path: Path, note: str) -> None:
    """Catches an app that does not start over a file that nobody wrote by hand."""
    file = tmp_path / "look.json"
    file.write_text(note)
    assert app_with(Look(memory=file)).theme == "eagle-dark"
    Look(memory=file / "no folder" / "look.json").remember("nord")  # nowhere to write to


def test_a_remembered_theme_that_is_gone_is_said_once(tmp_path: Path) -> None:
    """Catches an app that will not start because a theme file was deleted."""
    memory = tmp_path / "look.json"
    memory.write_text(json.dumps({"theme": "gone", "configured": None}))

    async def test() -> None:
        async with chat(FakeSession(), look=Look(memory=memory)) as (app, _):
            assert app.theme == "eagle-dark"
            assert warnings(app) == ["The theme chosen last, 'gone', is no longer there."]

    run(test)


def test_a_broken_theme_that_is_asked_for_says_why_it_is_not_there(tmp_path: Path) -> None:
    """Catches 'no such theme' about a file the user is looking at."""
    (tmp_path / "mine.toml").write_text('name = "mine"\n')
    with pytest.raises(UsageError, match=r"No theme called 'mine'.*mine\.toml: 'colors\.primary' is missing"):
        app_with(Look(themes=tmp_path), theme="mine")


@pytest.mark.parametrize("theme", [*NAMES, "eagle-ansi"])
def test_without_colour_every_theme_is_told_apart_by_weight(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a theme that paints under NO_COLOR, and states that only a colour tells apart."""
    monkeypatch.setenv("NO_COLOR", "1")

    async def test() -> None:
        async with chat(FakeSession(), size=(120, 40), theme=theme) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            app.theme = theme
            await pilot.pause()
            assert colours(app) <= {"default"}
            marks = {"●": (True, False), "★": (True, False), "○": (False, False), "─": (False, True)}
            looks = {
                segment.text.strip()[:1]: (bool(segment.style.bold), bool(segment.style.dim))
                for y in range(app.chat.tree_view.size.height - 1)
                for segment in app.chat.tree_view.render_line(y)
                if segment.style is not None and segment.text.strip()
            }
            assert {mark: looks[mark] for mark in marks} == marks

    run(test)


def test_ascii_reaches_every_corner() -> None:
    """Catches a glyph or a box that breaks where the font has none or makes it two cells wide."""
    text = "| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n\n```python\nx = 1\n```\n"

    async def test() -> None:
        async with chat(FakeSession(text), size=(120, 40), look=Look(ascii_only=True)) as (app, pilot):
            await send(app, pilot, "Show a table.")
            await reply_over(app, pilot)
            assert picture(app).isascii()
            tree = app.chat.tree_view.text()
            assert "* accepted" in tree
            assert "tau " in picture(app)
            for key in ("ctrl+r", "escape", "f1"):
                await pilot.press(key)
                await pilot.pause(0.1)
                assert picture(app).isascii(), picture(app)

    run(test)


ASCII_TREE = """\
-- draft tree - round 2 - 36 drawn -> 8 kept -> 1 accepted + 1 bonus = 2 tokens
 @ so
 1 * is 67/70    o light 30/12 o [a] 20/12   o waves 14/12 o red 09/12
 2 $ blue. --/62 o the 37/12   o of 25/12    o sun 17/12
 not kept: 28 drawn  ~ sea -3.9
 * accepted o rejected $ target's own . unreachable nn/mm draft%/target% @ root"""


def test_ascii_tree_as_text() -> None:
    """Catches ASCII trees that say less than the others, or whose columns are off."""

    async def test() -> None:
        look = Look(ascii_only=True)
        async with chat(FakeSession("The sky is blue."), size=(80, 24), look=look) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            assert app.chat.tree_view.text() == ASCII_TREE

    run(test)


def test_keys_of_the_users_own() -> None:
    """Catches a key that is remapped in the configuration and nowhere else, or takes another one with it."""
    keys = keymap({"app.compare": "f6", "chat.stop": "f7", "prompt.send": "ctrl+s"}, "config.toml")

    async def test() -> None:
        look = Look(keymap=keys)
        async with chat(FakeSession(), size=(120, 80), look=look) as (app, pilot):
            app.chat.prompt_bar.prompt.text = "sky"
            await pilot.press("enter")
            assert not app.busy  # enter sends no more
            app.chat.prompt_bar.prompt.text = "sky"
            await pilot.press("ctrl+s")
            await reply_over(app, pilot)
            await pilot.press("ctrl+r")
            assert app.screen is app.chat
            await pilot.press("f6")
            await wait_until(lambda: isinstance(app.screen, CompareScreen))
            await pilot.press("escape")
            await wait_until(lambda: app.screen is app.chat and not app.busy)
            await pilot.press("escape")  # shared its key with the one that is remapped
            assert app.focused is app.chat.tree_view
            await pilot.press("f1")
            await wait_until(lambda: isinstance(app.screen, HelpScreen))
            await pilot.pause()
            rows = [line.split("│")[1] for line in picture(app).splitlines() if "compare: the last" in line]
            assert rows
            assert all("f6" in row and "ctrl+r" not in row for row in rows)

    run(test)


def test_every_action_of_ours_can_be_given_another_key() -> None:
    """Catches a screen whose actions cannot be reached, and a key of ours that would be refused."""
    actions = {action for owned in our_bindings() for action in owned}
    assert {"app.compare", "chat.stop", "prompt.send", "draft_tree.view", "replay.play"} <= actions
    for owned in our_bindings():
        for action, bindings in owned.items():
            for name in (key for binding in bindings for key in binding.key.split(",")):
                assert is_key(name), (action, name)
            keymap({action: "f12"}, "config.toml")


@pytest.mark.parametrize("size", [(66, 20), (80, 24)])
def test_no_key_in_the_footer_is_cut_in_two(size: tuple[int, int]) -> None:
    """Catches the 80-column footer that ended in 'f1 he', and one that loses help or quit for it."""

    async def test() -> None:
        async with chat(FakeSession(), size=size) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            for key in ("escape", "down"):
                await pilot.press(key)
                await pilot.pause(0.2)
                footer = picture(app).splitlines()[-1]
                left, _, palette = footer.partition("▏")
                assert left.rstrip().endswith("f1 help"), footer
                assert "^q quit" in left
                assert palette == "^p palette"

    run(test)
