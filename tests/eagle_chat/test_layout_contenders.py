"""What a node stood against, of both sides."""

from dataclasses import replace

import pytest

from eagle_chat.layout.contenders import contenders, table
from eagle_chat.layout.picture import Picture
from eagle_chat.layout.rows import ROLES, row_text, row_width
from eagle_chat.layout.states import own_token
from eagle_chat.phases import DRAFTED, Sight
from eagle_chat.records import RoundRecord
from tests.eagle_chat.examples import example_plain, example_prefill, example_round, example_round_60


def text(record: RoundRecord, node: int, width: int = 80, height: int = 20) -> list[str]:
    return [row_text(row).rstrip() for row in table(record, node, width, height)]


def test_both_sides() -> None:
    """Catches siblings of another parent, a dropped one that is missing, and a rank that nobody knows.

    The target's remaining 17 % could hold a token before " the", which has 12: it is second or later.
    """
    assert text(example_round(), 2) == [
        ' after "because"    drafter        target         rank',
        "  ●of               62 ▇▇▇▇▇▇      71 ▇▇▇▇▇▇▇     1",
        "  ○the              21 ▇▇          12 ▇           2+  ←",
        "  ◌it               05             --",
        " the target's other 17 % are for tokens that are not here",
    ]


def test_the_targets_own_token() -> None:
    """Catches a bonus without what it beat, and one that stands there twice where the rerank lost it."""
    record = example_round()
    own = own_token(record)
    assert [each.text for each in contenders(record, own)] == [b" in", b" of"]
    lost = replace(record.tree.dropped[1], token=record.new[-1], text=b" of")
    dropped = (record.tree.dropped[0], lost, record.tree.dropped[2])
    record = replace(record, tree=replace(record.tree, dropped=dropped))
    (only,) = contenders(record, own)
    assert (only.node, only.draft, only.target) == (own, pytest.approx(0.40), 0.66)


def test_nothing_before_the_target_has_answered() -> None:
    """Catches probabilities, or the bonus, that are shown before their phase."""
    record = example_round()
    assert table(record, 2, 80, sight=DRAFTED) == []
    before = [each.text for each in contenders(record, own_token(record), Sight(own=False))]
    assert before == [b" in"]


@pytest.mark.parametrize("record", [example_round(), example_round_60(), example_plain(), example_prefill()])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_fits(record: RoundRecord, ascii_only: bool) -> None:
    """A row over the edge, an unknown role, more rows than there is room for, a chosen node left out."""
    for node in range(own_token(record) + 1):
        for height in (3, 5, 10):
            rows = table(record, node, 60, height, ascii_only)
            assert len(rows) <= height
            assert all(row_width(row) <= 60 for row in rows)
            assert all(role in ROLES for row in rows for _, role in row)
            assert not ascii_only or "".join(map(row_text, rows)).replace("…", "").isascii()
            assert not rows or sum(row_text(row).endswith(("←", "<-")) for row in rows) == 1


def test_only_where_there_is_room() -> None:
    """Catches a table that moves the tree, or pushes the reason out of a small panel."""
    small, large = (Picture(example_round(), "dendrogram", 80, height, False) for height in (9, 40))
    for picture in (small, large):
        tree = picture.tree()
        words = [row_text(row) for row in picture.words(2, tree)]
        assert any("rejected: after" in line for line in words)
        assert any("rank" in line for line in words) == (picture is large)
        assert picture is small or len(words) + len(tree) < 40
