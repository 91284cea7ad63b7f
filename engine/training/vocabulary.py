"""The draft vocabulary: the tokens a target uses most (FR-Spec, Zhao et al., 2025)."""

import torch
from torch import Tensor

from engine.training.corpus import Corpus


def draft_vocabulary(corpus: Corpus, vocabulary: int, size: int) -> Tensor:
    """The `size` ids most frequent in the corpus, of `vocabulary` ids; [D], sorted.

    Ties, and ids that never occur, are taken in order.
    """
    counts = torch.zeros(vocabulary, dtype=torch.long)
    for tokens in corpus.all_tokens():
        counts += torch.bincount(tokens.long(), minlength=vocabulary)
    return counts.argsort(descending=True, stable=True)[:size].sort().values


def share_covered(corpus: Corpus, ids: Tensor) -> float:
    """Share of the corpus' tokens that are among `ids`."""
    covered = sum(int(torch.isin(tokens, ids.to(tokens.dtype)).sum()) for tokens in corpus.all_tokens())
    return covered / max(1, corpus.tokens)
