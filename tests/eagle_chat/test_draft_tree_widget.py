"""The tree widget in a running app: what it paints, which view it takes, how it scrolls."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

import themes
from eagle_chat.layout.rows import ROLES
from eagle_chat.phases import Phase, Stage
from eagle_chat.records import RoundRecord
from eagle_chat.widgets.draft_tree import EMPTY, DraftTreeView
from tests.eagle_chat.examples import (
    example_plain,
    example_prefill,
    example_round,
    example_round_60,
    random_round,
    verdict,
)

Check = Callable[[DraftTreeView, Pilot], Awaitable[None]]


class TreeApp(App):
    """Nothing but the widget."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.tree_variable_defaults(self.current_theme.dark)

    def compose(self) -> ComposeResult:
        yield DraftTreeView()


def run(check: Check, size: tuple[int, int] = (120, 40)) -> None:
    async def main() -> None:
        app = TreeApp()
        async with app.run_test(size=size) as pilot:
            await check(app.query_one(DraftTreeView), pilot)

    asyncio.run(main())


def painted(tree: DraftTreeView) -> list[str]:
    """The text of every line on screen."""
    return [tree.render_line(y).text for y in range(tree.size.height)]


@pytest.mark.parametrize("size", [(40, 5), (80, 9), (80, 24), (120, 40), (200, 60)])
@pytest.mark.parametrize(
    "record", [example_round(), example_round_60(), example_prefill(), example_plain(), None]
)
def test_every_line_fills_the_width(size: tuple[int, int], record: RoundRecord | None) -> None:
    """A strip of the wrong length leaves rubbish of the last frame on screen or shifts a scroll bar."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        tree.show(record)
        await pilot.pause()
        for y in range(tree.size.height):
            assert tree.render_line(y).cell_length == tree.size.width

    run(check, size)


def test_nothing_yet() -> None:
    """Before the first round the panel must say what it is for, and again after a new conversation."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        tree.show(example_round())
        tree.show(None)
        await pilot.pause()
        assert painted(tree)[0].strip() == EMPTY
        assert "".join(painted(tree)[1:]).strip() == ""

    run(check)


def test_view_follows_the_size() -> None:
    """A dendrogram squeezed into a few rows, or a ladder where there is room for the tree."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        tree.show(example_round_60())
        await pilot.pause()
        assert tree.shown_view == "dendrogram"
        for size, view in (((80, 8), "ladder"), ((60, 40), "ladder"), ((120, 9), "ladder")):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert tree.shown_view == view
        assert "off-path" in tree.text()

    run(check)


def test_view_does_not_alternate() -> None:
    """Rounds of changing depth would make the picture flip between two views several times a second."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        tree.show(example_round_60())
        assert tree.shown_view == "ladder"
        tree.show(random_round(4, 1, depth=1))
        assert tree.shown_view == "ladder"

    run(check, (64, 40))


@pytest.mark.parametrize(
    ("size", "views"),
    [
        ((120, 40), ["ladder", "dendrogram", "icicle", "outline", "auto"]),
        ((48, 9), ["ladder", "dendrogram", "outline", "auto"]),
        ((30, 9), ["ladder", "auto"]),
    ],
)
def test_key_cycles_the_views_that_fit(size: tuple[int, int], views: list[str]) -> None:
    """The key in the footer must show every view that can be read here, none twice, and come back."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        tree.show(example_round())
        tree.focus()
        seen, texts = [], {tree.text()}
        for _ in views:
            await pilot.press("t")
            await pilot.pause()
            seen.append(tree.view)
            texts.add(tree.text())
        assert seen == views
        assert len(texts) == len(views) - 1

    run(check, size)


def test_the_mouse_explains_without_selecting() -> None:
    """Words that stay when the mouse is gone, or a mouse that stops the live view on its way."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        rounds = [example_round(6), example_round(7)]
        tree.follow(rounds)
        pilot.app.set_focus(None)
        await pilot.pause()
        before = painted(tree)
        await pilot.hover(DraftTreeView, offset=(14, 1))
        await pilot.pause()
        assert '●"␣of"' in "\n".join(painted(tree))
        assert tree.node is None
        rounds.append(example_round(8))
        tree.follow(rounds)
        assert tree.record is rounds[-1]
        await pilot.hover(DraftTreeView, offset=(2, 20))
        tree.show(example_round(7))
        await pilot.pause()
        assert painted(tree) == before

    run(check)


def test_model_text_is_not_markup() -> None:
    """A model that writes [bold] must not change the style of the panel, nor lose the word."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        tree.show(verdict(1, example_round().tree, (0, 1), b"[/red]"))
        await pilot.pause()
        assert "★[/red]" in "\n".join(painted(tree))

    run(check)


def test_a_deep_chain_scrolls_sideways() -> None:
    """A tree deeper than the screen would be cut without a way to see the rest."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        tree.view = "dendrogram"
        tree.show(random_round(60, 5, depth=20, beam=2))
        await pilot.pause()
        assert tree.virtual_size.width > 60
        heading = painted(tree)[0]
        tree.scroll_to(x=20, animate=False)
        await pilot.pause()
        assert tree.scroll_offset.x == 20
        assert painted(tree)[0] == heading  # it stays

    run(check, (60, 30))


def test_a_long_ladder_scrolls_under_its_heading() -> None:
    """More decisions than rows: the last ones must be reachable while heading and legend stay."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        record = random_round(40, 5, depth=14, beam=2)
        deepest = max(range(41), key=record.tree.depth)
        path = [deepest]
        while path[0]:
            path.insert(0, record.tree.parents[path[0]])
        pilot.app.set_focus(None)  # who looks closer gets other words there
        tree.show(verdict(3, record.tree, tuple(path), b" end"))
        await pilot.pause()
        assert "★end" not in "".join(painted(tree))
        tree.scroll_end(animate=False)
        await pilot.pause()
        lines = painted(tree)
        assert "round 3" in lines[0]
        assert "★end" in "".join(lines)
        assert "●accepted" in lines[-1]

    run(check, (80, 9))


def test_every_role_has_its_own_look() -> None:
    """A role missing from the style sheet would be drawn like plain text, or stop the app with a KeyError."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        styles = {role: tree.get_component_rich_style(f"draft-tree--{role}") for role in ROLES}
        assert styles["accepted"].bold
        assert styles["bonus"].underline
        assert styles["dropped"].italic
        states = ("root", "accepted", "bonus", "rejected", "unreachable", "edge")
        assert len({styles[role].color for role in states}) == len(states)

    run(check)


def test_colours_follow_the_theme() -> None:
    """Cached styles of the old theme would stay on screen after a change."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        for spec in themes.load_themes():
            pilot.app.register_theme(spec.to_textual())
        tree.show(example_round())
        colours = set()
        for name in ("eagle-dark", "eagle-light"):
            pilot.app.theme = name
            await pilot.pause()
            colours.add(tree.render_line(1)._segments[0].style)
        assert len(colours) == 2

    run(check)


def test_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR weight must say what colour said: accepted bold, unreachable dim, the others plain."""
    monkeypatch.setenv("NO_COLOR", "1")

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        assert tree.get_component_rich_style("draft-tree--unreachable").dim
        assert tree.get_component_rich_style("draft-tree--edge-accepted").bold
        assert not tree.get_component_rich_style("draft-tree--rejected").dim

    run(check)


def test_hidden_costs_nothing() -> None:
    """Laying out for a panel nobody sees would be taken from decoding; it must still be right when shown."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        tree.display = False
        await pilot.pause()
        tree.show(example_round())
        assert "round 7" not in tree.text()
        tree.display = True
        await pilot.pause()
        assert "round 7" in painted(tree)[0]

    run(check)


def test_the_cursor_scrolls_the_tree() -> None:
    """A selected node below the last row, under the words about it, or out of sight to the right."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        for view in ("ladder", "dendrogram"):
            tree.view = view
            tree.show(random_round(60, 5, depth=12, beam=2))
            await pilot.pause()
            for _ in range(40):
                await pilot.press("down")
                await pilot.pause()
                lines = [tree.render_line(y) for y in range(1, tree.size.height)]
                assert any(segment.style and segment.style.reverse for line in lines for segment in line)
                assert all(line.cell_length == tree.size.width for line in lines)

    run(check, (60, 9))


def test_another_view_or_size_keeps_the_cursor_in_sight() -> None:
    """A selected node that is off screen as soon as t draws the tree another way, or the window shrinks."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        def in_sight() -> bool:
            lines = [tree.render_line(y) for y in range(1, tree.size.height)]
            return any(segment.style and segment.style.reverse for line in lines for segment in line)

        tree.show(random_round(60, 5, depth=12, beam=4))
        await pilot.pause()
        for node in range(1, 60, 7):
            tree.view = "icicle"
            tree.point_at(node)
            await pilot.pause()
            tree.view = "outline"
            await pilot.pause()
            assert in_sight(), node
        await pilot.resize_terminal(80, 9)
        await pilot.pause()
        assert in_sight()

    run(check, (120, 20))


def test_a_selection_does_not_move_the_tree() -> None:
    """A node that is folded away by the words about it, as they take rows from the tree."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        tree.show(example_round_60())
        await pilot.pause()
        before = painted(tree)[1:15]
        await pilot.press("down")
        await pilot.pause()
        after = painted(tree)[1:15]
        assert [line[:100].rstrip() for line in after] == [line[:100].rstrip() for line in before]

    run(check, (120, 20))


def test_hidden_verdict_hidden_words() -> None:
    """Step mode that gives the verdict away below the tree; a selection kept for the next round."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        tree.show(example_round(), Phase(Stage.RERANK, 3))
        await pilot.press("down")
        await pilot.pause()
        assert "has not looked" in tree.text()
        assert "got 4" not in tree.text()
        tree.show(example_round(8))
        await pilot.pause()
        assert tree.node is None
        assert "got 4" in tree.text()

    run(check)


def test_the_legend_explains_numbers_only_where_there_are_some() -> None:
    """A key to `nn/mm` below a tree whose numbers are words, or none below one that has them."""

    async def check(tree: DraftTreeView, pilot: Pilot) -> None:
        for view, explained in (("ladder", True), ("outline", False)):
            tree.view = view  # type: ignore[assignment]
            tree.show(example_round())
            await pilot.pause()
            assert ("nn/mm" in painted(tree)[-1]) is explained
            assert "accepted" in painted(tree)[-1]

    run(check, (120, 20))
