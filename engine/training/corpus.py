"""Conversations on disk: numbered shards of token ids, and beside them the target's features.

Tokens are small and cost hours, features are large and cost minutes: a feature file may be deleted at any
time. Files are written whole or not at all, so that an interrupted run continues with the first number
missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.target import StockTarget

HELD_OUT = 32  # every so manieth conversation is for validation


@dataclass(frozen=True)
class Conversation:
    """Tokens of one conversation and, where they are known, the target's features of them."""

    tokens: Tensor  # [T] int32
    features: Tensor | None = None  # [T, F]


@dataclass(frozen=True)
class Place:
    """Where a conversation lies."""

    shard: int
    start: int
    length: int


class Corpus:
    """The shards in a folder."""

    def __init__(self, folder: Path, taps: tuple[int, ...] = (-1,)) -> None:
        self.folder = folder
        self._features = folder / ("features" + "".join(f"_{tap}" for tap in taps))
        self._lender: Path | None = None
        self._files: dict[Path, safe_open] = {}
        self.places: dict[int, list[Place]] = {}  # by shard
        for path in sorted(folder.glob("*.safetensors")):
            self._register(int(path.stem), load_file(path)["lengths"].tolist())

    def borrow(self, other: Path, tokens: int) -> None:
        """Read the conversations in the folder `other` in place of our own: whole shards, so many `tokens`.

        Nothing is written there: features that are missing there come to our own folder.
        """
        lender = Corpus(other)
        self._lender, self.places = other, {}
        for number in sorted(lender.places):
            if self.tokens >= tokens:
                break
            self.places[number] = lender.places[number]

    @property
    def tokens(self) -> int:
        """Tokens of all conversations."""
        return sum(place.length for places in self.places.values() for place in places)

    def split(self) -> tuple[list[Place], list[Place]]:
        """Conversations to train on, and those held out: one at least, unless there is only one."""
        places = [place for number in sorted(self.places) for place in self.places[number]]
        training = [place for i, place in enumerate(places, 1) if i % HELD_OUT]
        held_out = places[HELD_OUT - 1 :: HELD_OUT]
        if not held_out and len(training) > 1:
            held_out = [training.pop()]
        return training, held_out

    def next_number(self) -> int:
        """The first shard that is missing."""
        return next(n for n in range(len(self.places) + 1) if n not in self.places)

    def add(self, number: int, conversations: list[Conversation]) -> None:
        """Store a shard."""
        lengths = [len(conversation.tokens) for conversation in conversations]
        features = [c.features for c in conversations if c.features is not None]
        if features:
            self._save(self._features, number, {"features": torch.cat(features)})
        tokens = torch.cat([conversation.tokens for conversation in conversations])
        self._save(
            self.folder, number, {"tokens": tokens.int(), "lengths": torch.tensor(lengths, dtype=torch.int32)}
        )
        self._register(number, lengths)

    def without_features(self) -> list[int]:
        """Shards whose features have to be computed."""
        return [n for n in sorted(self.places) if not self._features_file(n).is_file()]

    def compute_features(self, target: StockTarget, number: int) -> None:
        """One forward over each conversation of a shard."""
        tokens = load_file(self._tokens_file(number))["tokens"]
        rows = []
        with torch.inference_mode():
            for place in self.places[number]:
                target.rewind(0)
                part = tokens[place.start : place.start + place.length].tolist()
                rows += [chunk.features.cpu() for chunk in target.extend(part) if chunk.features is not None]
        target.rewind(0)
        self._save(self._features, number, {"features": torch.cat(rows)})

    def read(self, place: Place) -> tuple[Tensor, Tensor]:
        """Tokens [T] and features [T, F] of one conversation; only its rows are read."""
        rows = slice(place.start, place.start + place.length)
        tokens = self._open(self._tokens_file(place.shard)).get_slice("tokens")[rows]
        return tokens, self._open(self._features_file(place.shard)).get_slice("features")[rows]

    def all_tokens(self) -> Iterator[Tensor]:
        """Tokens [N] of each shard."""
        for number in sorted(self.places):
            yield load_file(self._tokens_file(number))["tokens"]

    def conversations(self) -> Iterator[Tensor]:
        """Tokens [T] of each conversation."""
        for number, tokens in zip(sorted(self.places), self.all_tokens(), strict=True):
            for place in self.places[number]:
                yield tokens[place.start : place.start + place.length]

    def _register(self, number: int, lengths: list[int]) -> None:
        starts = [0, *accumulate(lengths)]
        self.places[number] = [
            Place(number, start, length) for start, length in zip(starts, lengths, strict=False)
        ]

    def _tokens_file(self, number: int) -> Path:
        return self._path(self._lender or self.folder, number)

    def _features_file(self, number: int) -> Path:
        """The lender's, where it has them."""
        own = self._path(self._features, number)
        if self._lender is None:
            return own
        theirs = self._path(self._lender / self._features.name, number)
        return theirs if theirs.is_file() else own

    def _open(self, path: Path) -> safe_open:
        """A memory-mapped file, opened once."""
        if path not in self._files:
            self._files[path] = safe_open(path, framework="pt")
        return self._files[path]

    @staticmethod
    def _path(folder: Path, number: int) -> Path:
        return folder / f"{number:05d}.safetensors"

    def _save(self, folder: Path, number: int, tensors: dict[str, Tensor]) -> None:
        """Under another name first: a file that is there is whole."""
        path = self._path(folder, number)
        partial = path.with_suffix(".partial")
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, partial)
        partial.replace(path)
