"""The phases of a round: which there are, what each shows in every layout, and the sentence about it."""

import random
from dataclasses import replace

import pytest
from rich.cells import cell_len

from eagle_chat.layout import dendrogram, ladder
from eagle_chat.layout.cells import Cell
from eagle_chat.layout.picture import VIEWS, Picture
from eagle_chat.layout.rows import row_text, row_width
from eagle_chat.layout.telling import heading, sentence
from eagle_chat.phases import Phase, Stage, drafting, phases, sight
from eagle_chat.records import RoundRecord
from tests.eagle_chat.examples import (
    example_plain,
    example_prefill,
    example_round,
    example_round_60,
    random_round,
    verdict,
)

ROUND = example_round()
LOOKUP = replace(ROUND, tree=replace(ROUND.tree, values=None, target=None, dropped=(), drawn=(), cutoff=None))
CUT = verdict(7, ROUND.tree, (0, 1, 4), None)


def names(record: RoundRecord) -> str:
    return " ".join(f"{phase.stage}{phase.level or ''}" for phase in phases(record))


def drawn(rows: list) -> str:
    return "\n".join(row_text(row).rstrip() for row in rows)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (ROUND, "draft1 draft2 draft3 rerank3 verify3 accept3 bonus3"),
        (example_round_60(), "draft1 draft2 draft3 draft4 draft5 draft6 rerank6 verify6 accept6 bonus6"),
        (LOOKUP, "draft3 verify3 accept3 bonus3"),
        (CUT, "draft1 draft2 draft3 rerank3 verify3 accept3"),
        (example_plain(), "bonus"),
        (example_prefill(), "bonus"),
    ],
)
def test_which_there_are(record, expected):
    """Catches a phase in which nothing happened: a rerank that dropped nothing, levels of a lookup."""
    assert names(record) == expected


def test_the_dendrogram_phase_by_phase():
    """Catches a phase that shows what it must not know yet, or anything that moves when it comes."""
    found = [drawn(dendrogram.layout(ROUND, 80, 20, sight=sight(phase))) for phase in phases(ROUND)]
    assert found[0].rstrip() == (
        " ◆because┬─○of 62/--\n         │\n         │\n         │\n         └─○the 21/--"
    )
    assert found[1].rstrip() == (
        " ◆because┬─○of 62/--──────┬─○a 48/--\n"
        "         │                └─○the 35/--\n"
        "         │\n"
        "         │\n"
        "         └─○the 21/--───────○way 55/--"
    )
    assert found[3] == (
        " ◆because┬─○of 62/--──────┬─○a 48/--─────────○process 60/--\n"
        "         │                └─○the 35/--─────┬─○scatter… 51/--┄┄◌in 40/--\n"
        "         │                                 │\n"
        "         │                                 └─○atmosph… 22/--\n"
        "         └─○the 21/--───────○way 55/--\n"
        " not kept: 28 drawn, 1 expanded  ◌it -3.0  ◌light -3.5"
    )
    assert found[4].splitlines()[0] == " ◆because┬─○of 62/71──────┬─○a 48/30─────────○process 60/81"
    assert found[5].splitlines()[1].strip().startswith("│                ┗━●the 35/52")
    assert "★" not in found[5]
    assert found[6] == drawn(dendrogram.layout(ROUND, 80, 20))


def test_the_ladder_phase_by_phase():
    """The same for the small layout, whose rows must be there from the start."""
    found = [drawn(ladder.layout(ROUND, 80, sight=sight(phase))) for phase in phases(ROUND)]
    assert found[0] == " ◆because\n 1 ○of 62/--         ○the 21/--\n\n\n\n"
    assert found[2] == (
        " ◆because\n"
        " 1 ○of 62/--         ○the 21/--\n"
        " 2 ○a 48/--          ○the 35/--\n"
        " 3 ○scattering 51/-- ○atmosphere 22/--\n"
        "\n"
        " besides ○  d2 1  d3 1"
    )
    assert found[4] == (
        " ◆because\n"
        " 1 ○of 62/71         ○the 21/12\n"
        " 2 ○a 48/30          ○the 35/52\n"
        " 3 ○scattering 51/64 ○atmosphere 22/11\n"
        "\n"
        " besides ○  d2 1  d3 1    not kept: 28 drawn, 1 expanded  ◌it -3.0  ◌in -3.1"
    )
    assert found[6] == drawn(ladder.layout(ROUND, 80))


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("width", "height"), [(40, 7), (80, 20), (120, 30)])
def test_nothing_moves(seed, view, width, height):
    """Catches a tree that jumps between phases: no node changes its place, no row comes or goes."""
    record = random_round(random.Random(seed).randint(2, 60), seed)
    whole = Picture(record, view, width, height, ascii_only=False)
    places = {cell.node: (cell.row, cell.x) for cell in whole.cells()}
    seen: set[int] = set()
    for phase in phases(record):
        picture = replace(whole, phase=phase)
        rows = picture.tree()
        assert len(rows) == len(whole.tree())
        assert all(row_width(row) <= max(width, picture.columns()) for row in rows)
        found: list[Cell] = picture.cells()
        in_tree = {cell.node for cell in found}
        assert {cell.node: (cell.row, cell.x) for cell in found}.items() <= places.items()
        assert seen <= in_tree  # nothing goes away again
        seen = in_tree
    assert seen == places.keys()


def test_levels_of_which_nothing_is_known_to_be_expanded():
    """Catches a sentence without its number where the text gave a level, or only the kept nodes are known."""
    deepest = max(ROUND.tree.depths())
    kept = replace(ROUND, tree=replace(ROUND.tree, drawn=()))
    assert sentence(kept, Phase(Stage.DRAFT, deepest)).startswith(f"Level {deepest}: 3 tokens drawn; best: ")
    level = ROUND.tree.depths().count(deepest)
    looked_up = replace(ROUND, tree=replace(ROUND.tree, drawn=ROUND.tree.drawn[:-1], looked_up=level))
    begins = sentence(looked_up, Phase(Stage.DRAFT, deepest)).split(";")[0]
    assert begins == f"Level {deepest}: 3 tokens looked up in the text"


def test_sentences():
    """Catches a sentence that says another thing than the picture, or invents a number."""
    assert [sentence(ROUND, phase) for phase in phases(ROUND)] == [
        'Level 1: 4 tokens drawn after "because"; best: "of" 62 %.',
        'Level 2: 4 nodes expanded, 16 drawn; best: "a" 48 %, with its path 30 %.',
        'Level 3: 4 nodes expanded, 16 drawn; best: "process" 60 %, with its path 18 %.',
        "Rerank: the best 8 of 36 go to the target, down to a path of 5 %; 28 dropped.",
        'Verify: one pass of the target over 9 tokens, 24.6 ms; it gives "of" 71 %.',
        'Accept: the target takes "of the scatteri…", 3 tokens of 3 levels.',
        'Bonus: the pass also gives the target\'s own next token, "of" 66 %: 4 in all.',
    ]
    assert sentence(LOOKUP, phases(LOOKUP)[0]) == (
        'Draft: 8 tokens after "because", found without probabilities.'
    )
    assert sentence(LOOKUP, Phase(Stage.VERIFY, 3)).endswith("over 9 tokens, 24.6 ms.")
    assert sentence(CUT, Phase(Stage.ACCEPT, 3)).endswith("the reply ends there.")
    none = verdict(7, ROUND.tree, (0,), b" is")
    assert sentence(none, Phase(Stage.ACCEPT, 3)) == (
        'Accept: none of the 2 drafts after "because" is what the target takes.'
    )
    assert sentence(example_plain(), Phase(Stage.OWN)) == (
        "The target's own: nothing was drafted in this round."
    )


@pytest.mark.parametrize("seed", range(15))
def test_any_phase_of_any_round(seed):
    """Catches a crash, a heading over the edge, or a character that an ASCII terminal lacks."""
    record = random_round(random.Random(seed).randint(1, 60), seed)
    for phase in phases(record):
        assert sentence(record, phase, ascii_only=True).isascii()
        assert cell_len(sentence(record, phase)) <= 110
        for width in (20, 40, 80, 160):
            for newest in (None, 12):
                assert row_width(heading(record, phase, newest, width, ascii_only=False)) == width


def test_drafting_takes_its_time():
    """Catches an index beyond the last level when the draft is over, or before the first."""
    found = [drafting(ROUND, share) for share in (-1.0, 0.0, 0.3, 0.6, 0.99, 1.0, 50.0)]
    levels = [1, 1, 2, 3]
    assert found == [
        *(Phase(Stage.DRAFT, level) for level in levels), *[Phase(Stage.RERANK, 3)] * 3
    ]  # fmt: skip
    assert drafting(LOOKUP, 0.2) == Phase(Stage.DRAFT, 3)
