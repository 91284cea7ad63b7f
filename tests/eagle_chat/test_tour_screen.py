"""The tour on screen: it can be walked through at any size, and left and found again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from eagle_chat.errors import EXIT_DONE
from eagle_chat.screens.chapters import ChaptersScreen
from eagle_chat.screens.help import HelpScreen
from eagle_chat.tour.app import TourApp
from eagle_chat.tour.chapters import Chapter, Step, chapters, recorded
from tests.eagle_chat.app_pilot import picture, run, wait_until
from tests.eagle_chat.test_terminal import in_terminal
from tests.eagle_chat.test_tour import step

SIZES = [(80, 24), (160, 50)]


@asynccontextmanager
async def touring(
    chapter: int = 1, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[TourApp, Pilot[None]]]:
    app = TourApp(chapter)
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        await wait_until(lambda: app.lesson.tree_view.record is not None)
        await pilot.pause()
        yield app, pilot


def words_shown(app: TourApp, text: str) -> bool:
    """Whether the whole text can be read."""
    rows = [row.partition("│")[0] for row in picture(app).splitlines()]
    return " ".join(text.split()) in " ".join(" ".join(rows).split())


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_walking_through(size: tuple[int, int]) -> None:
    """Catches a step that shows another round than it talks about, or whose text, node or hint is cut off."""

    async def walk(each: Chapter, one: Step, last: bool, app: TourApp, pilot: Pilot[None]) -> None:
        tree = app.lesson.tree_view
        assert each.title in picture(app)
        assert words_shown(app, one.text())
        assert (tree.record, tree.phase, tree.node) == (one.record, one.phase, one.node)
        if one.node is not None:
            assert tree._selected_cell() is not None, one
        assert words_shown(app, f"Try {each.to_try}") == last
        await pilot.press("space")
        await pilot.pause()

    async def test() -> None:
        async with touring(size=size) as (app, pilot):
            assert "Space goes on" in picture(app)
            for each in chapters():
                for one in each.steps:
                    await walk(each, one, one is each.steps[-1], app, pilot)
            assert "That was the tour" in picture(app)
            assert app.lesson.place.at_end

    run(test)


def test_a_number_and_its_sign_stay_together() -> None:
    """Catches a line of the third chapter that began with the % of the line above."""

    async def test() -> None:
        async with touring(3) as (app, _):
            assert "‘re’ has 19" in " ".join(picture(app).split())
            assert not any(line.strip().startswith("%") for line in picture(app).splitlines())

    run(test)


def test_keys() -> None:
    """Catches keys that do nothing, or lose the place."""

    async def test() -> None:
        async with touring(3, (120, 40)) as (app, pilot):
            lesson = app.lesson
            for key, place in (
                ("left", (2, 2)), ("n", (3, 1)), ("n", (4, 1)),
                ("p", (3, 1)), ("right", (3, 2)), ("n", (4, 1)),
            ):  # fmt: skip
                await pilot.press(key)
                assert (lesson.place.chapter, lesson.place.step + 1) == place, key
            await pilot.press("c", "down", "enter")
            await pilot.pause()
            assert lesson.place.chapter == 5
            await pilot.press("c")
            assert isinstance(app.screen, ChaptersScreen)
            await pilot.press("escape", "greater_than_sign", "greater_than_sign", "less_than_sign")
            await pilot.pause()
            assert lesson.tree_view.record is recorded("code").trace.rounds[9].record
            assert "a round beside the lesson" in picture(app)
            assert words_shown(app, step(5, 1).text())
            await pilot.press("escape")
            await pilot.pause()
            assert lesson.tree_view.record is step(5, 1).record
            await pilot.press("down")
            await pilot.pause()
            assert "live" not in picture(app)  # nothing runs here
            await pilot.press("escape")
            assert lesson.tree_view.node == step(5, 1).node
            await pilot.press("t", "f1")
            assert lesson.tree_view.view == "icicle"
            await pilot.pause()
            assert isinstance(app.screen, HelpScreen)
            await pilot.press("escape", "q")
            await wait_until(lambda: app.return_code is not None)
            assert app.return_code == 0

    run(test)


def test_resizing_keeps_the_place() -> None:
    """Catches sizes that crash or lose the words, and a window that is too small and does not say so."""

    async def test() -> None:
        async with touring(5) as (app, pilot):
            for width, height in [(160, 50), (100, 30), (80, 24), (60, 20), (200, 60), (80, 24)]:
                await pilot.resize_terminal(width, height)
                await pilot.pause(0.1)
                assert "Verification in one pass" in picture(app), (width, height)
                assert app.lesson.tree_view.record is step(5, 1).record
            await pilot.resize_terminal(50, 12)
            await pilot.pause(0.1)
            assert "needs 60×16 (now 50×12)" in picture(app)

    run(test)


def test_in_a_terminal(tmp_path: Path) -> None:
    """Catches a tour that does not start, end or say how to come back."""
    program = ("-m", "eagle_chat", "tour", "2")
    code, output = in_terminal(tmp_path, keys=[("Drafting", b"n"), ("The tree", b"q")], program=program)
    assert code == EXIT_DONE
    assert "`eagle-chat tour 3` goes on here." in output.rpartition("\x1b[?1049l")[2]
