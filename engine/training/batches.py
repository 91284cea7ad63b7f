"""Conversations of like length, padded to one another, in an order that a seed and a pass decide."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.training.corpus import Corpus, Place

MIXED = 1024  # conversations that are sorted by length together


@dataclass(frozen=True)
class Batch:
    """Conversations side by side."""

    tokens: Tensor  # [B, T]
    features: Tensor  # [B, T, F]
    real: Tensor  # [B, T] bool, False for padding

    @property
    def pairs(self) -> int:
        """(feature, next token) pairs in it."""
        return int(self.real[:, 1:].sum())


def plan_batches(places: list[Place], size: int, longest: int, seed: int) -> list[list[Place]]:
    """All of `places` once, shuffled; up to `size` tokens a batch, conversations cut to `longest` tokens."""
    random = torch.Generator().manual_seed(seed)
    shuffled = [places[i] for i in torch.randperm(len(places), generator=random).tolist()]
    batches: list[list[Place]] = []
    for start in range(0, len(shuffled), MIXED):
        mixed = sorted(shuffled[start : start + MIXED], key=lambda place: place.length)
        batches += _fill(mixed, size, longest)
    return [batches[i] for i in torch.randperm(len(batches), generator=random).tolist()]


def load_batch(corpus: Corpus, places: list[Place], longest: int) -> Batch:
    """Read a batch from disk."""
    rows = [tuple(part[:longest] for part in corpus.read(place)) for place in places]
    tokens, features = (
        torch.nn.utils.rnn.pad_sequence(list(column), batch_first=True) for column in zip(*rows, strict=True)
    )
    lengths = torch.tensor([len(row[0]) for row in rows])
    return Batch(tokens.long(), features, torch.arange(tokens.shape[1]) < lengths[:, None])


def _fill(places: list[Place], size: int, longest: int) -> list[list[Place]]:
    """Sorted conversations, cut into batches that stay within `size` with their padding."""
    batches: list[list[Place]] = [[]]
    for place in places:
        if batches[-1] and (len(batches[-1]) + 1) * min(place.length, longest) > size:
            batches.append([])
        batches[-1].append(place)
    return batches
