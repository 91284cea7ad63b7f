"""Looking closer in the running app: nodes, earlier rounds, and the way back to the live one."""

import threading

import pytest

from eagle_chat.app import EagleChatApp
from eagle_chat.screens.help import HelpScreen
from eagle_chat.widgets.prompt import Prompt
from tests.eagle_chat.app_pilot import Chat, chat, picture, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import FakeSession

LIVE = "── draft tree · round"


async def after_a_reply(app_and_pilot: Chat) -> None:
    """A reply is over and the tree has the keys."""
    app, pilot = app_and_pilot
    await send(app, pilot, "sky")
    await reply_over(app, pilot)
    await pilot.press("tab")
    await pilot.pause()


def rounds(app: EagleChatApp) -> int:
    """Rounds of the reply so far."""
    return app.feed.reply.statistics.rounds if app.feed.reply else 0


async def at_round(app: EagleChatApp, number: int) -> None:
    """Wait until the tree shows this round."""
    await wait_until(lambda: app.chat.tree_view.record and app.chat.tree_view.record.index == number)


def test_tab_leads_to_the_tree_first() -> None:
    """The documented way to the tree ends in the conversation."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            await after_a_reply((app, pilot))
            assert app.focused is app.chat.tree_view
            await pilot.press("tab")
            assert app.focused is app.chat.transcript
            await pilot.press("tab")
            assert isinstance(app.focused, Prompt)

    run(test)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_two_rounds_back_and_live_again(size: tuple[int, int]) -> None:
    """A view that cannot go back, does not say where it is, or calls the newest round an old one."""

    async def test() -> None:
        async with chat(FakeSession(), size=size) as (app, pilot):
            await after_a_reply((app, pilot))
            last = rounds(app)
            assert "round" in app.chat.tree_view.text().splitlines()[0]
            await pilot.press("left", "less_than_sign")
            await pilot.pause()
            assert f"rewound · round {last - 2} of {last}" in picture(app)
            await pilot.press("right", "greater_than_sign")
            await pilot.pause()
            assert "rewound" not in picture(app)
            await pilot.press("home")
            await pilot.pause()
            assert f"rewound · prefill of {last} rounds" in picture(app)
            await pilot.press("right_square_bracket", "left_square_bracket", "right", "end")
            await pilot.pause()
            assert "rewound" not in picture(app)
            assert app.chat.tree_view.record is app.feed.reply.newest

    run(test)


def test_rewound_while_the_reply_goes_on() -> None:
    """A view pulled forward by the next round, decoding that waits, an esc that stops the reply."""

    async def test() -> None:
        pace = threading.Semaphore(6)
        async with chat(FakeSession(pace=pace), size=(80, 24)) as (app, pilot):
            await send(app, pilot, "sky")
            await at_round(app, 5)
            await pilot.press("tab", "left", "left")
            assert app.chat.tree_view.record.index == 3
            for _ in range(3):
                pace.release()
            await wait_until(lambda: rounds(app) == 8)
            await wait_until(lambda: "rewound · round 3 of 8" in picture(app))
            await pilot.press("escape")
            await at_round(app, 8)
            assert app.busy
            assert "rewound" not in app.chat.tree_view.text()
            pace.release()
            await at_round(app, 9)  # it follows again
            await pilot.press("escape")
            await reply_over(app, pilot)
            assert app.feed.reply.stopped

    run(test)


@pytest.mark.parametrize("view", ["ladder", "dendrogram"])
def test_a_selected_node_is_explained(view: str) -> None:
    """A cursor that moves nothing, explains another node than it marks, or marks by colour alone."""

    async def test() -> None:
        async with chat(FakeSession(), size=(100, 40)) as (app, pilot):
            await after_a_reply((app, pilot))
            tree = app.chat.tree_view
            tree.view = view
            await pilot.press("left", "j", "j", "k")
            await pilot.pause()
            assert tree.node == 1
            token = tree.record.tree.texts[1].decode().strip()
            assert f'●"␣{token}"' in picture(app)
            assert "accepted: " in picture(app)
            marked = [
                segment.text
                for y in range(tree.size.height)
                for segment in tree.render_line(y)
                if segment.style and segment.style.reverse
            ]
            assert "".join(marked).startswith(f"●{token}")
            await pilot.press("escape")
            await pilot.pause()
            assert tree.node is None
            assert "accepted: " not in picture(app)

    run(test)


def test_a_click_selects() -> None:
    """Clicks that miss by the heading or the border; a selection that cannot be clicked away."""

    async def test() -> None:
        for size in ((80, 24), (160, 50)):
            async with chat(FakeSession(), size=size) as (app, pilot):
                await after_a_reply((app, pilot))
                tree = app.chat.tree_view
                lines = picture(app).splitlines()
                y = next(y for y, line in enumerate(lines) if "○light" in line and y > tree.region.y)
                at = lines[y].index("○light") + 1
                await pilot.click(offset=(at, y))
                await pilot.pause()
                assert tree.record.tree.texts[tree.node] == b" light"
                assert 'rejected: after "' in picture(app)
                await pilot.click(tree, offset=(tree.size.width - 2, 0))
                await pilot.pause()
                assert tree.node is None

    run(test)


def test_a_selection_holds_its_round_until_the_next_reply() -> None:
    """A node that vanishes while it is read; a selection carried over to another tree."""

    async def test() -> None:
        pace = threading.Semaphore(4)
        async with chat(FakeSession(pace=pace)) as (app, pilot):
            await send(app, pilot, "sky")
            await at_round(app, 3)
            await pilot.press("tab", "down")
            pace.release()
            await wait_until(lambda: "rewound · round 3 of 4" in picture(app))
            assert app.chat.tree_view.node == 1
            pace.release(200)
            await reply_over(app, pilot)
            assert app.chat.tree_view.record.index == 3
            app.chat.prompt_bar.prompt.focus()
            await send(app, pilot, "again")
            await reply_over(app, pilot)
            assert app.chat.tree_view.node is None
            assert app.chat.tree_view.record is app.feed.reply.newest

    run(test)


def test_the_round_is_explained_to_those_who_look() -> None:
    """Words computed for a panel that nobody looks at, or none for somebody who does."""

    async def test() -> None:
        async with chat(FakeSession(), size=(100, 40)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            assert ", got " not in picture(app)
            await pilot.press("tab")
            await pilot.pause()
            assert ", got " in picture(app)
            assert "accepted" in app.chat.tree_view.text().splitlines()[-1]
            await pilot.press("i")
            await pilot.pause()
            assert ", got " not in picture(app)

    run(test)


def test_keys_before_the_first_round() -> None:
    """A crash over an empty panel; letters swallowed that were meant for the prompt."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            await pilot.press("tab", "left", "up", "down", "home", "end")
            assert app.is_running
            await pilot.press("tab", "tab", "tab")
            app.chat.tree_view.focus()
            await pilot.press("j", "k")
            assert app.chat.prompt_bar.prompt.text == "jk"

    run(test)


def test_help_names_the_keys() -> None:
    """Keys that only the source knows."""

    async def test() -> None:
        async with chat(FakeSession(), size=(120, 90)) as (app, pilot):
            await pilot.press("f1")
            await pilot.pause()
            assert isinstance(app.screen, HelpScreen)
            shown = picture(app)
            assert all(
                words in shown for words in ("up, k, down, j", "left, <", "ten rounds back", "esc, end")
            )

    run(test)


def test_a_new_chat_forgets_the_rounds() -> None:
    """Rounds of a conversation that was left, still a key away."""

    async def test() -> None:
        async with chat(FakeSession()) as (app, pilot):
            await after_a_reply((app, pilot))
            await pilot.press("left", "ctrl+n")
            await pilot.pause()
            app.chat.tree_view.focus()
            await pilot.press("left")
            await pilot.pause()
            assert app.chat.tree_view.record is None

    run(test)


def test_a_window_that_was_too_small_leaves_the_keys_where_they_were() -> None:
    """Catches a tree that has lost the focus to the conversation when its window is large again."""

    async def test() -> None:
        async with chat(FakeSession(), size=(80, 24)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("tab", "left")
            for size in ((50, 12), (160, 50)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                assert ("needs 60×16" in picture(app)) == (size == (50, 12))
                assert ("draft" in picture(app)) == (size != (50, 12))
                assert app.focused is app.chat.tree_view

    run(test)
