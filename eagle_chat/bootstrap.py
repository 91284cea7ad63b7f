"""How sure a median is: a confidence interval by the percentile bootstrap.

As many values as there are are drawn from them with replacement, again and again; the medians of these draws
scatter about as the median would if everything were measured anew, and the interval holds the middle 95 % of
them. The seed is fixed, so that the same values have the same interval.
"""

from __future__ import annotations

import random
from functools import cache
from statistics import median

DRAWS = 1000
SHARE = 0.95
FEWEST = 3  # values; of fewer an interval would say what the values say already
SEED = 0

Interval = tuple[float, float]


@cache
def interval(values: tuple[float, ...]) -> Interval | None:
    """Of the median of `values`; None for fewer than three. Remembered: tables ask for the same ones."""
    if len(values) < FEWEST:
        return None
    rng = random.Random(SEED)
    medians = sorted(median(rng.choices(values, k=len(values))) for _ in range(DRAWS))
    outside = round(DRAWS * (1 - SHARE) / 2)
    return medians[outside], medians[-1 - outside]
