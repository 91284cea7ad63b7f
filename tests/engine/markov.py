"""A draft head that is a table, the next token's logits by the last token: what it says is known exactly."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from engine import DraftTree, Eagle2, Sampler
from engine.drafters.draft_vocabulary import proposing
from engine.layer import Cache
from engine.linear import Linear


class NoLayer:
    """A `HeadLayer` that remembers nothing."""

    device = torch.device("cpu")

    def at(self, start: int, rows: int) -> None:
        """No cache."""


class TableHead:
    """A `DraftHead` without weights; its outputs are one-hot rows of the last token."""

    taps: tuple[int, ...] = ()
    device = torch.device("cpu")

    def __init__(self, table: Tensor, draft_vocab: Tensor | None = None) -> None:
        self.table = table  # [V, V] logits
        self.layer = NoLayer()
        self.target_vocabulary = len(table)
        self.words = proposing(Linear(table.T.contiguous()), draft_vocab, grows=False)

    @property
    def draft_vocab(self) -> Tensor | None:
        """[D] target ids of what it can propose."""
        return self.words.ids

    @property
    def vocabulary(self) -> int:
        """Tokens it can propose."""
        return self.words.size

    def fuse(self, features: Tensor) -> Tensor:
        """As they are."""
        return features

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, cache: Cache, visible: Tensor
    ) -> Tensor:
        """[m, V]; only the tokens matter."""
        return one_hot(tokens, self.target_vocabulary).float()

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, D] rows of the table."""
        return self.words.logits(hidden)

    def token_ids(self, ids: Tensor) -> Tensor:
        """Draft ids to target ids."""
        return ids if self.draft_vocab is None else self.draft_vocab[ids]


def make_table(vocabulary: int = 31, spread: float = 2.0, seed: int = 0) -> Tensor:
    """[V, V] random logits."""
    return spread * torch.randn(vocabulary, vocabulary, generator=torch.Generator().manual_seed(seed))


def after(table: Tensor, token: int) -> Tensor:
    """[1, V], the head's output after `token`."""
    return one_hot(torch.tensor([token]), len(table)).float()


def propose(drafter: Eagle2, tokens: list[int], sampler: Sampler) -> DraftTree:
    """A tree below a text that was not drafted."""
    observe(drafter, tokens, rows=0, path=[0])
    return drafter.propose(tokens, sampler)


def observe(drafter: Eagle2, tokens: list[int], rows: int, path: list[int]) -> None:
    """The last forward had so many rows, and `path` of them was accepted."""
    drafter.observe(tokens, torch.zeros(len(tokens) - 1, 1), torch.empty(rows, 1), path)
