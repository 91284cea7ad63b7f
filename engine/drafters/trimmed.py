"""A head that may propose fewer tokens: what a smaller draft vocabulary would have been like."""

from __future__ import annotations

from copy import copy

from torch import Tensor

from engine.drafters.eagle3_head import Eagle3Head
from engine.drafters.eagle_head import EagleHead


def trimmed(head: EagleHead | Eagle3Head, rows: Tensor) -> EagleHead | Eagle3Head:
    """`head` with those rows of its LM head alone, [D], sorted, as places in its vocabulary.

    All else is shared, the cache too: drafters with one and the other take turns, from an empty text each.
    """
    smaller = copy(head)
    smaller.words = head.words.only(rows)
    return smaller
