"""The dendrogram as text, and what must hold for every tree."""

import random
from dataclasses import replace
from time import perf_counter

import pytest
from rich.cells import cell_len

from eagle_chat.layout import dendrogram
from eagle_chat.layout.rows import ROLES, Row, row_text, row_width
from eagle_chat.phases import DRAFTED
from eagle_chat.records import RoundRecord
from tests.eagle_chat.examples import (
    example_plain,
    example_prefill,
    example_round,
    example_round_60,
    random_path,
    random_round,
    verdict,
)


def picture(rows: list[Row]) -> str:
    return "\n".join(row_text(row).rstrip() for row in rows)


def test_small_tree() -> None:
    """The whole grammar at once: heavy path, branches, the target's own token, a dropped node dashed."""
    assert picture(dendrogram.layout(example_round(), 80, 20)) == (
        " ◆because┯━●of 62/71━━━━━━┱─○a 48/30─────────·process 60/81\n"
        "         │                ┗━●the 35/52━━━━━┯━●scatter… 51/64┱┄◌in 40/--\n"
        "         │                                 │                ┗━★of --/66\n"
        "         │                                 └─○atmosph… 22/11\n"
        "         └─○the 21/12───────·way 55/40\n"
        " not kept: 28 drawn, 1 expanded  ◌it -3.0  ◌light -3.5"
    )


def test_ascii() -> None:
    """Every line and glyph needs a plain form; one forgotten character breaks old terminals."""
    for record in (example_round(), example_round_60(), example_prefill()):
        assert picture(dendrogram.layout(record, 120, 30, ascii_only=True)).isascii()
    first = picture(dendrogram.layout(example_round(), 80, 20, ascii_only=True)).splitlines()[0]
    assert first.startswith(" @ becau~+=* of 62/71=")


@pytest.mark.parametrize(
    ("record", "expected"),
    [(example_prefill(), " ◆⏎━━━━━━━━★The --/83"), (example_plain(), " ◆sky━━━━━━★is --/--")],
)
def test_nothing_drafted(record: RoundRecord, expected: str) -> None:
    """Prefill and plain decoding draw a root and the target's own token, nothing else."""
    assert picture(dendrogram.layout(record, 120, 20)) == expected


def test_folding() -> None:
    """In few rows the weakest leaves go first and are counted where they hung."""
    rows = dendrogram.layout(example_round_60(), 120, 12)
    assert len(rows) <= 12
    shown = dendrogram.place(example_round_60(), 120, 11).shown
    kept = sum(node < 61 for node in shown.children)
    assert kept + sum(shown.folded.values()) == 61
    assert "+" in row_text(rows[0])


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(("width", "height"), [(100, 10), (120, 40), (190, 60), (64, 3), (80, 1)])
def test_random_trees(seed: int, width: int, height: int) -> None:
    """Rows over the edge or the height, lost accepted nodes, pieces over each other, an unknown role."""
    record = random_round(random.Random(seed).randint(1, 60), seed)
    for ascii_only in (False, True):
        rows = dendrogram.layout(record, width, height, ascii_only)
        assert len(rows) <= max(2, height)
        assert all(row_width(row) <= width for row in rows)
        assert all(role in ROLES for row in rows for _, role in row)
    placement = dendrogram.place(record, width, height)
    assert set(record.path) <= placement.at.keys()
    assert placement.shown.bonus in placement.at
    _assert_glyphs_in_place(record, placement, width, height)


def _assert_glyphs_in_place(
    record: RoundRecord, placement: dendrogram.Placement, width: int, height: int
) -> None:
    summary = height >= 6 and bool(record.tree.drawn)
    placement = dendrogram.place(record, width, max(2, height - summary))
    rows = dendrogram.layout(record, width, height)
    for depth, row in placement.at.values():
        glyph = _at_cell(row_text(rows[row]), placement.columns[depth])
        assert glyph in "◆●○·★◌", f"no glyph at depth {depth} of row {row}"


def _at_cell(text: str, cell: int) -> str:
    for end in range(len(text)):
        if cell_len(text[: end + 1]) > cell:
            return text[end]
    return ""


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("height", [8, 20, 60])
def test_no_verdict_moves_anything(seed: int, height: int) -> None:
    """If places depended on the verdict the tree would jump when it arrives: stepping would be unreadable.

    The target's own token may take a row; whatever is below it moves by that row and no further. Accepted
    nodes that had been folded are the other exception: they appear.
    """
    record = random_round(40, seed)
    rng = random.Random(seed)
    before = dendrogram.place(replace(record, bonus=None, path=(0,)), 120, height)
    for _ in range(5):
        path = random_path(record.tree, rng)
        if not set(path) <= before.at.keys():
            continue
        after = dendrogram.place(verdict(5, record.tree, path, b" own"), 120, height)
        own = after.at[after.shown.bonus]
        for node, (depth, row) in before.at.items():
            moved = own[1] <= row and len(after.shown.children[path[-1]]) > 1
            assert after.at[node] == (depth, row + moved)


@pytest.mark.parametrize("seed", range(20))
def test_verdict_of_the_same_round(seed: int) -> None:
    """Before and after the verdict of one round, every token stands in the same cell."""
    record = random_round(30, seed)
    before = picture(dendrogram.layout(record, 120, 25, sight=DRAFTED)).splitlines()
    after = picture(dendrogram.layout(record, 120, 25)).splitlines()
    assert len(before) == len(after)
    assert "●" not in "".join(before)
    assert "★" not in "".join(before)
    for old, new in zip(before[:-1], after[:-1], strict=True):
        for place, char in enumerate(old):
            assert char in "○─│├└┬┄ -" or char.isdigit() or char == new[place]


def test_first_row_is_the_drafters_best() -> None:
    """The eye starts on the drafter's first choices; another order would hide where the target left them."""
    record = example_round_60()
    tree = record.tree
    placement = dendrogram.place(record, 120, 60)
    node = 0
    while kept := [child for child in placement.shown.children[node] if child < len(tree.tokens)]:
        assert tree.values[kept[0]] == max(tree.values[child] for child in kept)
        assert placement.at[kept[0]][1] == 0
        node = kept[0]


def test_deep_chain_scrolls() -> None:
    """A chain too deep for the width comes out wider, and the widget must know how wide to scroll."""
    nodes = 40
    tree = replace(
        example_round().tree,
        tokens=tuple(range(nodes)),
        texts=(b" word",) * nodes,
        parents=tuple(range(-1, nodes - 1)),
        values=None,
        target=None,
        dropped=(),
        drawn=(),
    )
    rows = dendrogram.layout(verdict(1, tree, tuple(range(nodes)), b" x"), 80, 10)
    assert 80 < row_width(rows[0]) <= dendrogram.width_needed(verdict(1, tree, (0,), b" x"))
    assert not dendrogram.readable(nodes - 1, 80)


def test_fast() -> None:
    """Layout time is taken from decoding; 60 nodes must stay far below a frame."""
    record = example_round_60()
    start = perf_counter()
    for _ in range(20):
        dendrogram.layout(record, 120, 40)
    assert (perf_counter() - start) / 20 < 0.020
