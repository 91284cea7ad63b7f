"""What the figures of `eagle-chat study` are made of: statistics, trees to compare with, and drawing."""

from __future__ import annotations

import io
import random
import xml.etree.ElementTree as ET

import pytest
import torch
from rich.console import Console

from eagle_chat.study.chart import Drawing, Mark, Panel, Series, ticks_between
from eagle_chat.study.fixed_tree import fixed_tree
from eagle_chat.study.numbers import difference_interval, quartiles, tau, times_chance
from eagle_chat.study.shown import live, panels, printed, tables
from eagle_chat.study.size import axes
from eagle_chat.study.svg_chart import svg
from eagle_chat.study.vocabulary import Witness
from eagle_chat.tree_sizes import TreeSize
from engine import PUBLISHED, GenerationSettings, NoDrafter, Sampler
from engine.drafters.eagle import check_paths

CORNERS = Series("corners", (Mark(0, 0), Mark(1, 1, few=True)), joined=False)
PANEL = Panel("share, by τ", (CORNERS,), ((0.0, "0"), (1.0, "1")), (0.0, 1.0), diagonal=True)


def drawing(*found: Panel) -> Drawing:
    return Drawing(
        found or (PANEL,), ("size", "τ"), (("8/3/4", "2.00"),), "fewer than 20 <nodes>", ("So & so",)
    )


def test_tau_counts_every_task_alike() -> None:
    """Catches a pooled mean, in which the longest task decides."""
    assert tau([[(30, 10), (3, 1)], [(11, 11)]]) == 2.0
    assert tau([]) is None
    assert tau([[(0, 0)]]) is None


def test_interval_of_paired_questions() -> None:
    """Catches sides that are drawn apart: what questions differ in would drown a difference that all have."""
    questions = [(10 * n, 20) for n in range(1, 9)]
    faster = [(tokens, rounds - 1) for tokens, rounds in questions]
    same = difference_interval({"a": list(zip(questions, questions, strict=True))})
    assert same == (0.0, 0.0)
    pairs = {task: list(zip(faster, questions, strict=True)) for task in "ab"}
    found = difference_interval(pairs)
    assert found is not None
    low, high = found
    assert 0 < low < tau([faster]) - tau([questions]) < high < 1
    assert difference_interval(pairs) == found
    assert difference_interval(pairs | {"c": pairs["a"][:1]}) is None
    assert difference_interval({}) is None


def test_interval_covers_what_it_should() -> None:
    """Catches an interval of another width: of 200 experiments without a difference most say so."""
    chance, covered = random.Random(1), 0
    for _ in range(200):
        pairs = [tuple((chance.randint(20, 40), 15) for _ in range(2)) for _ in range(30)]
        low, high = difference_interval({"a": pairs})
        covered += low <= 0 <= high
    assert 178 <= covered < 200


def test_spread_beyond_chance() -> None:
    """Catches a spread that shares of few tests have by chance, taken for one of context."""
    chance = random.Random(0)
    alike = [(sum(chance.random() < 0.3 for _ in range(20)), 20) for _ in range(300)]
    assert times_chance(alike) == pytest.approx(1, abs=0.2)
    assert times_chance([(2, 20), (18, 20)] * 10) > 5
    assert times_chance([(1, 2), (0, 0)]) is None
    assert times_chance([(0, 5), (0, 7)]) is None
    assert quartiles([0.0, 1.0, 2.0, 3.0, 4.0]) == (1.0, 2.0, 3.0)
    assert quartiles([1.0]) is None


@pytest.mark.parametrize("nodes", [1, 8, 25, 60])
def test_fixed_tree_has_as_many_nodes(nodes: int) -> None:
    """Catches paths without a parent, and a tree of EAGLE's size that is not EAGLE's."""
    paths = fixed_tree(nodes)
    assert len(check_paths(paths, 100)) == nodes
    assert set(fixed_tree(25)) == set(PUBLISHED)
    assert set(paths) <= set(PUBLISHED) or set(paths) > set(PUBLISHED)


def test_sizes_along_each_axis() -> None:
    """Catches trees with more nodes than are drawn, which cannot be built."""
    for along in axes(TreeSize(8, 3, 4), 5).values():
        for size in along:
            assert 1 <= size.nodes <= size.beam + (size.depth - 1) * size.beam**2
            assert size.beam <= 5
        assert len(along) > 2
    assert axes(TreeSize(8, 3, 4), 5)["depth"][0] == TreeSize(4, 1, 4)


def test_witness_pairs_rows_with_tokens() -> None:
    """Catches probabilities of one position counted for the token of another."""
    witness = Witness(NoDrafter(), 4, torch.device("cpu"))
    logits = torch.full((3, 4), -50.0)
    logits[0, 1] = logits[2, 3] = 50.0  # after the root 1 is said, after node 2 3
    logits[1, 0] = 50.0  # not asked
    witness.observe([0, 2], None, torch.zeros(1, 4), [0])  # of a prompt: no round
    witness.observe([0, 2, 1, 3], None, logits, [0, 2])
    witness.propose([0, 2, 1, 3], Sampler(GenerationSettings()))
    assert witness.said.tolist() == [0, 1, 0, 1]
    assert witness.likely.tolist() == pytest.approx([0, 1, 0, 1])


def test_round_ticks() -> None:
    """Catches an axis without a label, or with more than fit."""
    assert ticks_between(0, 1, 6) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert ticks_between(-0.61, 0.05, 4) == pytest.approx([-0.6, -0.4, -0.2, 0])
    assert ticks_between(3, 3, 4) == []
    for low, high in ((0, 1), (17, 23), (150, 1531), (0.001, 0.0013)):
        for most in (2, 3, 5, 8):
            assert 1 <= len(ticks_between(low, high, most)) <= most + 1


@pytest.mark.parametrize("ascii_only", [False, True])
def test_panel_has_its_marks_in_their_places(ascii_only: bool) -> None:
    """Catches an axis upside down, rows of other widths, and few samples that look like many."""
    rows = [row.plain for row in panels(drawing(), 41, 10, ascii_only)]
    full, hollow = "Oo" if ascii_only else "●○"
    assert {len(row) for row in rows[:-1]} == {40}
    assert rows[0].startswith("share, by tau" if ascii_only else "share, by τ")
    assert rows[1].rstrip().endswith(hollow)  # upper right
    assert rows[7][6] == full  # lower left
    assert sum(row.count(full) for row in rows[1:8]) == 1
    assert rows[4][15:30].strip()  # the diagonal
    assert rows[9].split() == ["0", "1"]
    assert rows[10].split()[1] == "corners"
    assert all(row.isascii() for row in rows) == ascii_only


def test_panels_stand_side_by_side_where_there_is_room() -> None:
    """Catches rows wider than the terminal."""
    both = drawing(PANEL, PANEL)
    for width, height in ((160, 9), (80, 9), (40, 17)):
        rows = panels(both, width, 8, False)
        assert len(rows) == height
        assert max(row.cell_len for row in rows[:-1]) <= width


def test_printed_figure_in_a_pipe() -> None:
    """Catches markup in names, folded rows, and what --ascii leaves."""
    text = printed(drawing(), "[red] · fp32", ascii_only=True)
    assert text.isascii()
    assert text.splitlines()[-2:] == ["So & so", "[red] - fp32"]
    assert any(line.split("|")[1:3] == [" 8/3/4 ", " 2.00 "] for line in text.splitlines())


def test_numbers_are_whole_where_the_terminal_is_narrow() -> None:
    """Catches numbers cut to an ellipsis, and columns that are lost."""
    heads = ("variant", *(f"τ\ntask{n}" for n in range(9)))
    cells = ("no-rerank", *(f"{n}.25" for n in range(9)))
    for width in (300, 60, 5):
        console = Console(width=max(width, 25), file=io.StringIO(), color_system=None)
        for grid in tables(Drawing((), heads, (cells,), ""), width, ascii_only=False):
            console.print(grid)
        shown = console.file.getvalue()
        assert all(shown.count(cell) == 1 for cell in cells[1:])
        assert shown.count("no-rerank") == shown.count("variant") == {300: 1, 60: 2, 5: 9}[width]


def test_svg_has_every_mark() -> None:
    """Catches a file that is no XML, and a mark or an interval that is lost."""
    interval = Panel("τ", (Series("τ", (Mark(0, 1.0, (0.5, 1.5)),)),), ((0.0, "a"),))
    root = ET.fromstring(svg(drawing(PANEL, interval), "calibration: <tiny>"))
    inside = {tag: [one for one in root if one.tag.endswith(tag)] for tag in ("circle", "text", "path")}
    marks = [one for one in inside["circle"] if one.get("r") == "4"]
    assert len(marks) == 2 + 1 + 2  # and the legend's
    assert [one.get("fill") for one in marks].count("white") == 1
    assert sum("V" in str(one.get("d")) for one in inside["path"]) == 1
    texts = [one.text for one in inside["text"]]
    assert {"calibration: <tiny>", "So & so", "hollow: fewer than 20 <nodes>", "share, by τ"} <= set(texts)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_live_figure_on_a_terminal(ascii_only: bool) -> None:
    """Catches a figure that is not painted while it is measured, or that stays after it."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=24, color_system=None)
    with live(console, drawing, 2, ascii_only) as show:
        show("sky · eagle2")
        seen = screen.getvalue()
        assert "1 of 2 replies" in seen
        assert "corners" in seen
        assert "8/3/4" in seen
        assert seen.replace("\x1b", "").isascii() == ascii_only


def test_nothing_is_painted_where_nobody_looks() -> None:
    """Catches escape sequences in a log."""
    screen = io.StringIO()
    with live(Console(file=screen), drawing, 1, False) as show:
        show("sky")
    assert screen.getvalue() == ""
