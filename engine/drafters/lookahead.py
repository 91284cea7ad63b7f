"""Lookahead decoding: n-grams from Jacobi iterations of the target itself (Fu et al., ICML 2024).

The window has `ngram` - 1 rows of `window` columns. Its first row begins with the root and guesses the text
from there on; each later row holds what the target made of the row before, one token further. A token sees
the first row up to its column, and the column down to itself: that is a path, so the published window, its
positions and its mask, is a draft tree, and the n-grams to be verified are branches beside it in the same
forward. A column and the target's next token after it are an n-gram for the pool; then the rows move up by
one and what the target said becomes the last.

Three things are not as published: nodes that are alike are verified once; nodes of the window are accepted
like any other where they happen to be right; and the first guesses are drawn from the text by its length, so
that a reply can be repeated. N-grams are the target's best tokens at any temperature, as there.
"""

from __future__ import annotations

import random

from torch import Tensor

from engine.drafters.trie import Trie
from engine.errors import SettingsError
from engine.sampling import Sampler
from engine.tree import DraftTree


class NgramPool:
    """How the latest `candidates` n-grams that begin with a token go on."""

    def __init__(self, candidates: int) -> None:
        self._candidates = candidates
        self._found: dict[int, dict[tuple[int, ...], None]] = {}  # by first token, the latest last

    def add(self, ngram: list[int]) -> None:
        """As the latest; the oldest makes room."""
        known, rest = self._found.setdefault(ngram[0], {}), tuple(ngram[1:])
        known.pop(rest, None)
        known[rest] = None
        if len(known) > self._candidates:
            del known[next(iter(known))]

    def after(self, token: int) -> list[list[int]]:
        """The latest first."""
        return [list(rest) for rest in reversed(self._found.get(token, {}))]


class Lookahead:
    """Drafts the window's paths, and the n-grams of the pool that begin with the root.

    The sizes are the paper's for a model of 7B parameters on a GPU.
    """

    taps: tuple[int, ...] = ()

    def __init__(self, window: int = 15, ngram: int = 5, candidates: int = 15) -> None:
        if window < 1 or ngram < 2 or candidates < 1:
            raise SettingsError(
                "lookahead needs a window of 1 or more, n-grams of 2 or more tokens and 1 candidate or more, "
                f"not {window}, {ngram} and {candidates}"
            )
        self.window, self.ngram, self.candidates = window, ngram, candidates
        self.pool = NgramPool(candidates)
        self._rows: list[list[int]] = []  # of the window; the root's place is the first of the first
        self._proposed: tuple[DraftTree, list[int]] | None = None  # and the node at each column's end

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """See what the target says at the end of each column."""
        if self._proposed and len(self._proposed[0]) == len(logits):  # else it was cut before the forward
            ends = self._proposed[1]
            self._move_on(logits[ends].float().argmax(-1).tolist())
        self._proposed = None

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """The window's columns, then the n-grams."""
        if not self._rows:  # as wide as it takes to be the window's once all rows are there
            guesses = random.Random(len(tokens)).choices(tokens, k=self.window + self.ngram - 3)
            self._rows = [[tokens[-1], *guesses]]
        self._rows[0][0] = tokens[-1]
        trie, ends = Trie(tokens[-1]), []
        for column in range(len(self._rows[0])):
            below = [row[column] for row in self._rows[1:]]
            ends.append(trie.add([*self._rows[0][1 : column + 1], *below])[-1])
        for ngram in self.pool.after(tokens[-1]):
            trie.add(ngram)
        tree = trie.tree()
        self._proposed = tree, ends
        return tree

    def rewind(self, length: int) -> None:
        """Begin anew, as published: a reply that is made again must not live on what the first one found."""
        self.pool, self._rows, self._proposed = NgramPool(self.candidates), [], None

    def _move_on(self, said: list[int]) -> None:
        """The window is one token further in the text, whatever number of tokens was accepted."""
        if len(self._rows) < self.ngram - 1:  # one row more, of columns that are now one nearer to the root
            self._rows = [row[1:] for row in (*self._rows, said)]
            return
        for ngram in zip(*self._rows, said, strict=True):
            self.pool.add(list(ngram))
        self._rows = [*self._rows[1:], said]
