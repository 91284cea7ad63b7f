"""The numbers on screen and in summaries, from rounds made by hand."""

from __future__ import annotations

import pytest

from eagle_chat.records import RoundRecord, TreeRecord
from eagle_chat.statistics import RECENT_MS, ReplyStatistics


def a_round(
    index: int, accepted: int, parents: tuple[int, ...] = (-1,), *, bonus: bool = True, ms: float = 30.0
) -> RoundRecord:
    """A round that committed `accepted` drafted tokens of a tree, and the bonus."""
    size = accepted + bonus
    tree = TreeRecord((0,) * len(parents), (b"",) * len(parents), parents)
    at = size - 1 if bonus else None
    times = (0.0, 0.0, ms) if index == 0 else (ms / 10, ms * 7 / 10, ms * 2 / 10)
    return RoundRecord(index, (1,) * size, (b"",) * size, tree, tuple(range(accepted + 1)), at, None, *times)


def fed(*rounds: RoundRecord) -> ReplyStatistics:
    statistics = ReplyStatistics()
    for record in rounds:
        statistics.add(record)
    return statistics


CHAIN = (-1, 0, 1, 2)
BUSH = (-1, 0, 0, 0)


def test_nothing_is_known_before_the_first_round():
    """Catches a division by zero, or a speed made up, while only the prefill is there."""
    for statistics in (fed(), fed(a_round(0, 0, ms=80))):
        assert statistics.tau is None
        assert statistics.tokens_per_second is None
        assert statistics.tokens_per_second_now is None
        assert statistics.accepted_by_depth == []
        assert statistics.decode_ms == 0


def test_prefill_is_apart():
    """Catches the prefill's token or time leaking into tau and speed."""
    statistics = fed(a_round(0, 0, ms=900), a_round(1, 2, CHAIN, ms=40), a_round(2, 0, CHAIN, ms=20))
    assert statistics.new_tokens == 5
    assert statistics.rounds == 2
    assert statistics.prefill_ms == 900
    assert statistics.tau == 2.0
    assert statistics.tokens_per_second == pytest.approx(1000 * 4 / 60)
    assert (statistics.draft_ms, statistics.verify_ms) == (pytest.approx(6), pytest.approx(42))
    assert statistics.decode_ms == pytest.approx(60)
    assert statistics.accepted_history == [2, 0]


def test_plain_decoding_has_a_tau_of_one():
    """Catches an off-by-one that flatters or hurts every method alike."""
    assert fed(*(a_round(i, 0) for i in range(8))).tau == 1.0


def test_acceptance_by_depth_counts_only_trees_that_reach_it():
    """Catches a share over all rounds, which shallow trees would pull down."""
    statistics = fed(
        a_round(0, 0),
        a_round(1, 3, CHAIN),
        a_round(2, 1, CHAIN),
        a_round(3, 0, BUSH),
        a_round(4, 0),  # a tree of the root alone
    )
    assert statistics.accepted_by_depth == [pytest.approx(2 / 3), 0.5, 0.5]


def test_tokens_that_were_cut_are_not_accepted():
    """Catches a path cut at a stop token that is counted at its full length."""
    cut = a_round(1, 2, CHAIN, bonus=False)
    assert cut.accepted == 2
    statistics = fed(a_round(0, 0), cut)
    assert statistics.tau == 2.0
    assert statistics.accepted_by_depth == [1.0, 1.0, 0.0]


def test_speed_now_forgets_what_is_long_ago():
    """Catches a gauge that shows the mean of the whole reply as the speed now."""
    slow = [a_round(i, 0, ms=500) for i in range(1, 5)]
    fast = [a_round(i, 3, CHAIN, ms=50) for i in range(5, 5 + int(RECENT_MS / 50))]
    statistics = fed(a_round(0, 0), *slow, *fast)
    assert statistics.tokens_per_second_now == pytest.approx(80)
    assert statistics.tokens_per_second is not None
    assert statistics.tokens_per_second < 70


def test_speed_now_survives_one_very_long_round():
    """Catches an empty window, hence no speed at all, after a round longer than the window."""
    assert fed(a_round(0, 0), a_round(1, 0, ms=4 * RECENT_MS)).tokens_per_second_now == pytest.approx(1 / 6)


def test_a_clock_that_stood_still():
    """Catches a division by zero where a coarse clock measures nothing."""
    statistics = fed(a_round(0, 0), a_round(1, 1, CHAIN, ms=0.0))
    assert statistics.tokens_per_second is None
    assert statistics.tokens_per_second_now is None
    assert statistics.tau == 2.0
