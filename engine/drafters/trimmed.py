"""A head that may propose fewer tokens: what a smaller draft vocabulary would have been like."""

from __future__ import annotations

from copy import copy

from torch import Tensor

from engine.drafters.eagle3_head import Eagle3Head
from engine.drafters.eagle_head import EagleHead
from engine.linear import Linear


def trimmed(head: EagleHead | Eagle3Head, rows: Tensor) -> EagleHead | Eagle3Head:
    """`head` with those rows of its LM head alone, [D], sorted, as places in its vocabulary.

    All else is shared, the cache too: drafters with one and the other take turns, from an empty text each.
    """
    weight, bias = head.lm_head.weight[rows].detach(), head.lm_head.bias
    smaller = copy(head)
    smaller.lm_head = Linear(weight, None if bias is None else bias[rows].detach())
    smaller.draft_vocab = rows if head.draft_vocab is None else head.draft_vocab[rows]
    return smaller
