"""Prompt lookup: propose what followed the last occurrences of the current n-gram (Saxena, 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from torch import Tensor

from engine.costs import Costs
from engine.drafters.chances import Chances, Match, worth
from engine.drafters.trie import Trie
from engine.errors import SettingsError
from engine.sampling import Sampler
from engine.tree import DraftTree

LOOKED_AT = 8  # occurrences for each candidate, most of which may have gone on alike


class PromptLookup:
    """Up to `depth` tokens copied from the text so far; the longest matching n-gram wins.

    One candidate is a chain, as published. More of them, the latest with another continuation, then those of
    shorter n-grams, are a tree of at most `nodes` nodes. With `costs` it has those that pay, by how often the
    text went on as looked up.

    The index maps every n-gram to where it ended, so a proposal costs the same in a long conversation.
    """

    taps: tuple[int, ...] = ()

    def __init__(
        self,
        depth: int,
        longest: int = 3,
        candidates: int = 1,
        nodes: int | None = None,
        costs: Costs | None = None,
    ) -> None:
        if depth < 1 or longest < 1:
            raise SettingsError(
                f"prompt lookup needs depth and n-gram length of 1 or more, not {depth} and {longest}"
            )
        if candidates < 1 or (nodes is not None and nodes < 1):
            raise SettingsError(
                f"prompt lookup needs candidates and nodes of 1 or more, not {candidates} and {nodes}"
            )
        self.depth = depth
        self.longest = longest
        self.candidates = candidates
        self.nodes = nodes or candidates * depth
        self.costs = costs
        self.chances = Chances()
        self._ends: dict[tuple[int, ...], list[int]] = {}  # n-gram -> indices after it, the last one last
        self._indexed: list[int] = []  # the tokens whose n-grams are in the index
        self._found: list[Match] = []  # by the last proposal
        self._length = 0  # of the text then

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Index the n-grams that got a continuation, and count which were right."""
        for match in self._found:
            self.chances.learn(match, tokens[self._length :])
        self._found = []
        self._index(tokens)

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """Root, then the continuations; the root alone where nothing repeats."""
        self._found, self._length = self.matches(tokens), len(tokens)
        trie, chances = Trie(tokens[-1], self.nodes), [1.0]
        for match in self._found:
            nodes = trie.add(match.tokens)[1:]
            for node, chance in zip(nodes, self.chances.of(match), strict=False):
                if node < len(chances):
                    chances[node] = max(chances[node], chance)
                else:
                    chances.append(chance)
        return self._paying(trie.tree(), chances)

    def find(self, tokens: list[int]) -> Match | None:
        """The longest n-gram that the text ends with and had before; None where nothing repeats."""
        return next(self._occurrences(tokens), None)

    def matches(self, tokens: list[int]) -> list[Match]:
        """Up to `candidates` of them that went on differently: longest n-grams first, then the latest."""
        found: list[Match] = []
        for match in self._occurrences(tokens):
            if len(found) == self.candidates:
                break
            if not any(other.tokens[: len(match.tokens)] == match.tokens for other in found):
                found.append(replace(match, rank=len(found)))
        return found

    def rewind(self, length: int) -> None:
        """Index the shared prefix anew."""
        self._found = []
        if length < len(self._indexed):
            shared = self._indexed[: length + 1]
            self._ends, self._indexed = {}, []
            self._index(shared)

    def _occurrences(self, tokens: list[int]) -> Iterator[Match]:
        for n in range(min(self.longest, len(tokens)), 0, -1):
            words = tokens[len(tokens) - n :]
            ends = self._ends.get(tuple(words), [])
            for end in islice(reversed(ends), LOOKED_AT * self.candidates):
                yield Match(words, tokens[end : end + self.depth])

    def _paying(self, tree: DraftTree, chances: list[float]) -> DraftTree:
        """The nodes that are worth their rows: the likeliest, whose ancestors are likelier still."""
        if self.costs is None or len(tree) == 1:
            return tree
        nodes = sorted(range(1, len(tree)), key=lambda node: -chances[node])
        count = worth([chances[node] for node in nodes], self.costs, 1, 1 / self.costs.verify(1))
        return tree.only([0, *sorted(nodes[:count])])

    def _index(self, tokens: list[int]) -> None:
        """Every n-gram that ends before the last token, which is the one without a continuation."""
        for end in range(len(self._indexed) + 1, len(tokens)):
            for n in range(1, min(self.longest, end) + 1):
                self._ends.setdefault(tuple(tokens[end - n : end]), []).append(end)
        self._indexed += tokens[len(self._indexed) : len(tokens) - 1]
