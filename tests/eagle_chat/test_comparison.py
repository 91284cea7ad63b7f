"""Verdicts about two runs."""

from typing import Any

import pytest

from eagle_chat.comparison import Difference, find_difference, judge


def run(tokens: list[int], speed: float | None = None, stopped_by: str = "stop_token") -> dict[str, Any]:
    """A summary as far as verdicts look at it."""
    return {"tokens": tokens, "tokens_per_second": speed, "stopped_by": stopped_by}


def test_same_and_faster() -> None:
    """Catches a ratio upside down."""
    verdict = judge(run([1, 2, 3], 80.0), run([1, 2, 3], 40.0))
    assert verdict.identical
    assert verdict.sentence() == "×2.00 against plain decoding · same text ✓ 3 tokens"


def test_first_difference() -> None:
    """Catches an index that is off by one."""
    verdict = judge(run([1, 2, 3, 4]), run([1, 2, 9, 4]))
    assert not verdict.identical
    assert verdict.difference == Difference(2, 3, 9)
    assert verdict.sentence() == "text differs from token 3 on"


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_another_text_by_right(temperature: float) -> None:
    """Catches speculative sampling that is called wrong, and a greedy fault that is called right."""
    sampled = run([1, 2, 3]) | {"method": "draft-model-sampled", "temperature": temperature}
    verdict = judge(sampled, run([1, 2, 9]) | {"method": "none", "temperature": temperature})
    assert not verdict.identical
    assert ("by right" in verdict.sentence()) == (temperature > 0)
    assert "same text" in judge(sampled, run([1, 2, 3])).sentence()


@pytest.mark.parametrize(
    ("near_tie", "words"), [(True, "same text for 2 tokens, then a near tie"), (False, "✗")]
)
def test_measured_difference(near_tie: bool, words: str) -> None:
    """Catches rounding that is shown as a fault, and a fault that is shown as rounding."""
    measured = Difference(2, 3, 9, fp32_gap=0.04 if near_tie else 4.0, near_tie=near_tie)
    verdict = judge(run([1, 2, 3]), run([1, 2, 9]), measured)
    assert words in verdict.sentence()
    assert "fp32 gap" in verdict.sentence()
    assert ("✗" in verdict.sentence()) is not near_tie


def test_lengths() -> None:
    """Catches a shorter text taken for an equal one, and a stop taken for a difference."""
    assert find_difference(run([1, 2]), run([1, 2, 3])) == Difference(2, None, 3)
    assert find_difference(run([1, 2, 3]), run([1, 2])) == Difference(2, 3, None)
    assert find_difference(run([]), run([1])) == Difference(0, None, 1)
    stopped = judge(run([1, 2], stopped_by="user"), run([1, 2, 3]))
    assert stopped.difference is None
    assert not stopped.identical
    assert "as far as both went, 2 tokens" in stopped.sentence()
