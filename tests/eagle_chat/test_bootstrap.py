"""The interval of a median: what it holds, how wide it is, and that it can be repeated."""

from __future__ import annotations

import random
from statistics import median

from eagle_chat.bootstrap import interval


def sample(count: int, seed: int = 1) -> tuple[float, ...]:
    """Ratios about 2."""
    rng = random.Random(seed)
    return tuple(rng.gauss(2.0, 0.3) for _ in range(count))


def test_few_values_have_none():
    """Catches an interval made of nothing."""
    assert interval(()) is interval((2.0,)) is interval((2.0, 3.0)) is None
    assert interval((2.0, 3.0, 4.0)) == (2.0, 4.0)


def test_the_same_values_have_the_same_interval():
    """Catches a seed that is left to chance."""
    first = interval(sample(20))
    interval.cache_clear()
    assert interval(sample(20)) == first


def test_it_holds_the_median_and_narrows():
    """Catches an interval about something else, of the values and not of their median, or turned around."""
    widths = []
    for count in (10, 40, 160):
        low, high = interval(sample(count))
        assert low < median(sample(count)) < high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]
    values = sorted(sample(160))
    assert widths[2] < 0.3 * (values[-4] - values[3])


def test_it_holds_the_truth_about_as_often_as_it_says():
    """Catches another share than 95 %: of 60 measurements of what is 2, a few miss it, and not many."""
    found = [interval(sample(25, seed)) for seed in range(60)]
    held = sum(low <= 2.0 <= high for low, high in found)
    assert 52 <= held <= 60
    assert any(low > 1.95 or high < 2.05 for low, high in found)
