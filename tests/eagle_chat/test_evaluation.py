"""What an evaluation counts: tau of a task and of all, and how good a head's probabilities are."""

from __future__ import annotations

import math

import pytest

from eagle_chat.evaluation import Calibration, Score, TaskScore
from eagle_chat.records import RoundRecord, TreeRecord


def a_round(
    parents: tuple[int, ...],
    confidences: tuple[float, ...] | None,
    path: tuple[int, ...],
    *,
    index: int = 1,
    bonus: bool = True,
) -> RoundRecord:
    """A round that accepted `path`, root first; `confidences` are those of the nodes below the root."""
    values = None
    if confidences is not None:
        values = [0.0]
        for parent, confidence in zip(parents[1:], confidences, strict=True):
            values.append(values[parent] + math.log(confidence))
    tree = TreeRecord((0,) * len(parents), (b"",) * len(parents), parents, values and tuple(values))
    size = len(path) - 1 + bonus
    at = size - 1 if bonus else None
    return RoundRecord(index, (1,) * size, (b"",) * size, tree, path, at, None, 1.0, 1.0, 1.0)


PREFILL = a_round((-1,), None, (0,), index=0)
# The root has children 1 and 2; 3 and 4 hang below 1, 5 below 2.
TREE = (-1, 0, 0, 1, 1, 2)
CONFIDENCES = (0.62, 0.25, 0.55, 0.31, 0.95)


def test_tau_pools_the_replies():
    """Catches a mean of replies, or a prefill's token that counts: (9 + 1 - 2) / 4 and not 2.5."""
    score = TaskScore()
    long, none = a_round(TREE, CONFIDENCES, (0, 1, 3)), a_round(TREE, CONFIDENCES, (0,))
    for record in (PREFILL, long, none, long, PREFILL, none):
        score.add(record)
    assert (score.statistics.rounds, score.statistics.new_tokens) == (4, 10)
    assert score.tau == 2.0
    assert score.as_json()["accepted_by_depth"] == [0.5, 0.5]


def test_tau_of_all_is_the_mean_of_the_tasks():
    """Catches a mean weighted by how long the replies are, and a task without rounds that spoils it."""
    score = Score()
    assert score.tau is None
    for _ in range(3):
        score.add("long", a_round(TREE, CONFIDENCES, (0, 1, 3)))
    score.add("short", a_round(TREE, CONFIDENCES, (0,)))
    score.add("nothing", PREFILL)
    assert score.tasks["nothing"].tau is None
    assert score.tau == 2.0


def test_calibration_counts_only_what_was_tested():
    """Catches nodes below a rejected one that are counted as wrong, though nobody asked the target."""
    calibration = Calibration()
    calibration.add(PREFILL)
    calibration.add(a_round(TREE, CONFIDENCES, (0, 1, 4)))  # node 5 is not tested
    bins = calibration.as_json()
    found = {round(one["from"], 1): (one["count"], one["accepted_share"]) for one in bins if one["count"]}
    assert found == {0.6: (1, 1.0), 0.2: (1, 0.0), 0.5: (1, 0.0), 0.3: (1, 1.0)}
    assert bins[6]["mean_confidence"] == pytest.approx(0.62)
    assert [(bins[0][key], bins[9][key]) for key in ("from", "to")] == [(0.0, 0.9), (0.1, 1.0)]
    assert bins[9]["mean_confidence"] is bins[9]["accepted_share"] is None
    expected = 0.62 + 0.25 + 0.62 * 0.55 + 0.62 * 0.31 + 0.25 * 0.95
    assert calibration.expected_per_round == pytest.approx(expected)
    assert calibration.accepted_per_round == 2
    assert calibration.error == pytest.approx((0.38 + 0.25 + 0.55 + 0.69) / 4)


def test_calibration_after_a_stop_token():
    """Catches children of a stop token that are counted as rejected, though the walk may have gone on."""
    calibration = Calibration()
    calibration.add(a_round(TREE, CONFIDENCES, (0, 1), bonus=False))
    assert calibration.tested == 2
    assert calibration.accepted == 1


def test_calibration_of_a_certain_head():
    """Catches an index out of range where a confidence is 1."""
    calibration = Calibration()
    calibration.add(a_round((-1, 0), (1.0,), (0, 1)))
    assert calibration.as_json()[9]["count"] == 1


def test_drafter_without_probabilities():
    """Catches a calibration made up for prompt lookup."""
    calibration = Calibration()
    calibration.add(a_round((-1, 0), None, (0, 1)))
    assert calibration.as_json() == []
    assert calibration.expected_per_round is calibration.accepted_per_round is calibration.error is None
