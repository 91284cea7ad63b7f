"""Prompt lookup: propose what followed the last occurrence of the current n-gram (Saxena, 2023)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.errors import SettingsError
from engine.sampling import Sampler
from engine.tree import DraftTree


@dataclass(frozen=True)
class Match:
    """Where the end of the text was before, and what followed."""

    words: list[int]  # the n-gram that both have
    tokens: list[int]  # what followed it


class PromptLookup:
    """A chain of up to `depth` tokens copied from the text so far; the longest matching n-gram wins.

    The index maps every n-gram to where it last ended, so a proposal costs the same in a long conversation.
    """

    taps: tuple[int, ...] = ()

    def __init__(self, depth: int, longest: int = 3) -> None:
        if depth < 1 or longest < 1:
            raise SettingsError(
                f"prompt lookup needs depth and n-gram length of 1 or more, not {depth} and {longest}"
            )
        self.depth = depth
        self.longest = longest
        self._ends: dict[tuple[int, ...], int] = {}  # n-gram -> index after its last occurrence
        self._indexed: list[int] = []  # the tokens whose n-grams are in the index

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Index the n-grams that got a continuation."""
        self._index(tokens)

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """Root, then the continuation; the root alone where nothing repeats."""
        match = self.find(tokens)
        return DraftTree.chain([tokens[-1], *(match.tokens if match else ())])

    def find(self, tokens: list[int]) -> Match | None:
        """The longest n-gram that the text ends with and had before; None where nothing repeats."""
        for n in range(min(self.longest, len(tokens)), 0, -1):
            words = tokens[len(tokens) - n :]
            end = self._ends.get(tuple(words))
            if end is not None:
                return Match(words, tokens[end : end + self.depth])
        return None

    def rewind(self, length: int) -> None:
        """Index the shared prefix anew.

        Entries point at last occurrences, which cannot be undone one by one.
        """
        if length < len(self._indexed):
            shared = self._indexed[: length + 1]
            self._ends, self._indexed = {}, []
            self._index(shared)

    def _index(self, tokens: list[int]) -> None:
        """Every n-gram that ends before the last token, which is the one without a continuation."""
        for end in range(len(self._indexed) + 1, len(tokens)):
            for n in range(1, min(self.longest, end) + 1):
                self._ends[tuple(tokens[end - n : end])] = end
        self._indexed += tokens[len(self._indexed) : len(tokens) - 1]
