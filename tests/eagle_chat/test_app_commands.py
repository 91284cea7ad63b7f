"""Slash commands in the app: completion, what they change, the form, another model."""

import threading
from dataclasses import replace

from textual.widgets import Input

from eagle_chat.app import EagleChatApp
from eagle_chat.choices import Choices
from eagle_chat.errors import EagleChatError
from eagle_chat.screens.help import HelpScreen
from eagle_chat.screens.methods import MethodsScreen
from eagle_chat.screens.parameters import ParametersScreen
from eagle_chat.widgets.prompt import Prompt
from eagle_chat.worker import Replacement
from tests.eagle_chat.app_pilot import chat, picture, prompts, replies, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import INFO, SKY, FakeSession, factory


def hint(app: EagleChatApp) -> str:
    return str(app.chat.prompt_bar.border_title or "")


def written(app: EagleChatApp) -> str:
    return app.chat.query_one(Prompt).text


def test_parameters_count_from_the_next_reply_on() -> None:
    """Catches a setting that is lost, sent to the model as text, or undone by the next one."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await send(app, pilot, "/temp 0.7")
            await send(app, pilot, "/top-p 0.9")
            await send(app, pilot, "/system Be brief.")
            await send(app, pilot, "/method pld")
            await send(app, pilot, "/seed 7")
            await wait_until(lambda: session.choices.seed == 7)
            wanted = Choices("pld", temperature=0.7, top_p=0.9, seed=7, system="Be brief.")
            assert session.choices == wanted
            assert session.asked == []
            assert written(app) == ""
            await wait_until(lambda: "+ pld  fp32" in picture(app) and "T=0.7  p0.9  seed 7" in picture(app))
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            assert "pld · seed 7" in picture(app)

    run(test)


def test_a_wrong_argument_changes_nothing_and_keeps_what_was_typed() -> None:
    """Catches a mistake that costs the text, or is half obeyed."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await send(app, pilot, "/temp hot")
            assert "/temp: it has to be 0 (greedy), or a number from 0.001 on, not hot." in hint(app)
            assert written(app) == "/temp hot"
            await send(app, pilot, "/tmp 1")
            assert "There is no command /tmp (did you mean /temp?)" in hint(app)
            await send(app, pilot, "/temp")
            assert "/temp is 0 now" in hint(app)
            await send(app, pilot, "/regen soon")
            assert "not soon" in hint(app)
            assert session.choices == Choices(method="eagle2")
            assert session.asked == []

    run(test)


def test_what_the_engine_refuses_is_taken_back() -> None:
    """Catches a screen that shows a setting which the session never took, or sends it again and again."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await send(app, pilot, "/nodes 1000")
            await wait_until(lambda: "more than the 36 candidates" in picture(app))
            await send(app, pilot, "/temp 0.5")
            await wait_until(lambda: session.choices.temperature == 0.5)
            assert session.choices.nodes is None

    run(test)


def test_two_slashes_are_one_for_the_model() -> None:
    """Catches a message that cannot begin with a slash."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await send(app, pilot, "//usr is a folder")
            await reply_over(app, pilot)
            assert session.asked == prompts(app) == ["/usr is a folder"]

    run(test)


def test_completion() -> None:
    """Catches a list that does not filter, tab and enter that take the wrong one, and esc that loses text."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            popup = app.chat.prompt_bar.suggestions
            await pilot.press("/", "m")
            await pilot.pause()
            assert popup.display
            assert "/method" in picture(app)
            assert "/temp" not in picture(app)
            await pilot.press("down", "tab")
            assert written(app) == "/min-p "
            await pilot.press("ctrl+u", *"/me", "tab", "p")
            assert written(app) == "/method p"
            await pilot.press("enter")
            await wait_until(lambda: session.choices.method == "pld")
            assert written(app) == ""
            await pilot.press(*"/he", "escape")
            assert not popup.display
            assert written(app) == "/he"
            await pilot.press("l", "enter")
            assert isinstance(app.screen, HelpScreen)
            assert session.asked == []

    run(test)


def test_enter_does_not_overwrite_a_number() -> None:
    """Catches a suggestion that takes the place of what was typed in full."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (_, pilot):
            await pilot.press(*"/seed", "space", *"12", "enter")
            await wait_until(lambda: session.choices.seed == 12)
            await pilot.press(*"/seed", "space", "r", "enter")
            await wait_until(lambda: session.choices.seed is None)

    run(test)


def test_help_lists_every_command() -> None:
    """Catches a command that can only be found by guessing."""

    async def test() -> None:
        async with chat(FakeSession(), size=(120, 150)) as (app, pilot):
            await send(app, pilot, "/help")
            await pilot.pause()
            for usage in ("/temp [T]", "/model NAME", "/copy [code [N]]", "/versions", "/quit"):
                assert usage in picture(app)

    run(test)


def test_regenerating_with_a_seed_of_choice() -> None:
    """Catches a reply that is not repeated with its seed, or not with the one that was given."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await send(app, pilot, "/retry")
            assert "no reply to regenerate" in hint(app)
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            for number, command in enumerate(("/retry", "/regen", "/regen 5"), 2):
                await send(app, pilot, command)
                await wait_until(lambda number=number: len(session.seeds) == number)
                await reply_over(app, pilot)
            assert session.seeds == [1234, 1234, 1236, 5]
            assert replies(app) == [f"Again: {SKY}"]

    run(test)


def test_copying() -> None:
    """Catches a copy that takes the whole reply for its code, or the wrong block."""

    async def test() -> None:
        session = FakeSession("Two:\n\n```\none\n```\n\n```\ntwo\n```\n")
        async with chat(session) as (app, pilot):
            await send(app, pilot, "code")
            await reply_over(app, pilot)
            for command, copied in (("/copy code", "two"), ("/copy code 1", "one"), ("/copy", session.text)):
                await send(app, pilot, command)
                assert app.clipboard == copied
            await send(app, pilot, "/copy code 3")
            assert "blocks 1 to 2, not 3" in hint(app)

    run(test)


def test_the_form() -> None:
    """Catches a form that changes other fields, takes what cannot be, or changes something on escape."""

    async def test() -> None:
        session = FakeSession()
        session.choices = replace(session.choices, system="Be brief.\nBe kind.")
        async with chat(session, size=(80, 24)) as (app, pilot):
            await pilot.press("f2")
            await pilot.pause()
            app.screen.query_one("#field-temperature", Input).value = "hot"
            await pilot.pause()
            assert "temperature: it has to be 0 (greedy)" in picture(app)
            await pilot.press("enter")
            assert isinstance(app.screen, ParametersScreen)
            app.screen.query_one("#field-temperature", Input).value = "0.7"
            app.screen.query_one("#field-method", Input).value = "none"
            await pilot.press("enter")
            await wait_until(lambda: session.choices.method == "none")
            assert session.choices == Choices("none", temperature=0.7, system="Be brief.\nBe kind.")
            await pilot.press("f2")
            await pilot.pause()
            app.screen.query_one("#field-seed", Input).value = "5"
            await pilot.press("escape")
            assert app.screen is app.chat
            assert app.feed.choices.seed is None

    run(test)


def test_the_picker_of_methods() -> None:
    """Catches a list without cards, one that chooses what is not here, and a choice that is not taken."""

    async def test() -> None:
        session = FakeSession()
        async with chat(session) as (app, pilot):
            await pilot.press("f3")
            await wait_until(lambda: isinstance(app.screen, MethodsScreen))
            await wait_until(lambda: "a tree that a head grows where it is confident" in picture(app))
            await pilot.press("end")
            await wait_until(lambda: "which is not here" in picture(app))
            await pilot.press("enter")
            await pilot.pause()
            assert isinstance(app.screen, MethodsScreen)
            await pilot.press("escape", "f3")
            await wait_until(lambda: isinstance(app.screen, MethodsScreen))
            await pilot.press("down", "enter")
            await wait_until(lambda: session.choices.method == "pld")
            assert app.screen is app.chat

    run(test)


def test_another_model_goes_on_with_the_conversation() -> None:
    """Catches two models in memory at once, a lost conversation, and settings that fall back to defaults."""

    async def test() -> None:
        old, new = FakeSession(), FakeSession("Hello.", info=replace(INFO, model="llama3-8b"))
        asked: list[tuple[str, Choices]] = []

        def other(name: str, choices: Choices) -> Replacement:
            asked.append((name, choices))
            return Replacement(lambda progress: None, factory(new))

        async with chat(old, replacement=other) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await send(app, pilot, "/temp 0.5")
            await send(app, pilot, "/model llama3-8b")
            await send(app, pilot, "and now?")
            await wait_until(lambda: new.asked == ["and now?"])
            await reply_over(app, pilot)
            assert asked == [("llama3-8b", Choices("eagle2", temperature=0.5))]
            assert old.closed
            assert new.restored == [["sky"]]
            assert replies(app) == [SKY, "Hello."]
            assert "llama3-8b + eagle2" in picture(app)

    run(test)


def test_a_model_that_cannot_be_had() -> None:
    """Catches a typing error in a name that costs the model which was there."""

    async def test() -> None:
        session = FakeSession()

        def missing(progress: object) -> None:
            raise EagleChatError("Unknown model 'lama'.")

        def other(name: str, choices: Choices) -> Replacement:
            return Replacement(missing, factory(session))

        async with chat(session, replacement=other) as (app, pilot):
            await send(app, pilot, "/model lama")
            await wait_until(lambda: "Unknown model 'lama'; smollm2-135m stays." in picture(app))
            await wait_until(lambda: app.feed.info is not None)
            assert not session.closed
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            assert replies(app) == [SKY]

    run(test)


def test_settings_wait_for_the_reply_that_runs() -> None:
    """Catches a setting that reaches into a reply under way, and a stop that it swallows."""

    async def test() -> None:
        pace = threading.Semaphore(2)
        session = FakeSession(pace=pace)
        async with chat(session) as (app, pilot):
            await send(app, pilot, "sky")
            await send(app, pilot, "/temp 0.7")
            assert session.choices.temperature == 0
            await pilot.press("escape")
            await reply_over(app, pilot)
            await wait_until(lambda: session.choices.temperature == 0.7)
            assert "stopped" in picture(app)

    run(test)
