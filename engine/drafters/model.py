"""A small causal LM of the same vocabulary as drafter: it drafts what it would say in the target's place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import SettingsError
from engine.residual import accept_sampled, drafts_of
from engine.sampling import Sampler
from engine.target import Chunk, shared_prefix
from engine.tree import DraftTree
from engine.verify import accept


class CausalModel(Protocol):
    """What is needed of the small model: a target is one, and so is a `SharedLlama`."""

    takes_trees: bool

    @property
    def vocabulary(self) -> int: ...
    @property
    def context(self) -> int: ...
    @property
    def length(self) -> int: ...
    def extend(self, tokens: list[int]) -> Iterator[Chunk]: ...
    def rewind(self, length: int) -> None: ...


class DraftModel:
    """A chain of `depth` tokens, each the draft model's most likely one.

    A greedy draft is chosen, not sampled, so the walk verifies it like any other tree.
    """

    taps: tuple[int, ...] = ()

    def __init__(self, model: CausalModel, vocabulary: int, depth: int) -> None:
        if model.vocabulary != vocabulary:
            raise SettingsError(
                f"the draft model has a vocabulary of {model.vocabulary} tokens and the target one of "
                f"{vocabulary}: choose a draft model of the target's family"
            )
        if not model.takes_trees:
            raise SettingsError(
                "the draft model cannot take back what it drafted: choose one whose layers all have attention"
            )
        if depth < 1:
            raise SettingsError(f"depth must be 1 or larger, not {depth}")
        self.model = model
        self.depth = depth
        self._drafted: list[int] = []  # tokens in the draft model's cache, its own drafts included

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Drop the drafts that were not committed and read what else was, up to the pending token."""
        known = tokens[: min(len(tokens) - 1, self.model.context)]
        self._rewind(shared_prefix(self._drafted, known))
        self._extend(known[self.model.length :])

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """Root, then up to `depth` tokens: those the draft model would pick in the target's place.

        When sampling that is with the target's own noise, as in `engine.drafters.ranking`.
        """
        chain = [tokens[-1]]
        for _ in range(min(self.depth, self.model.context - self.model.length)):
            logits = self._extend(chain[-1:])
            chain.append(sampler.pick(logits, [*tokens, *chain[1:]]))
        return DraftTree.chain(chain)

    def rewind(self, length: int) -> None:
        """Keep the KV of the first `length` tokens."""
        self._rewind(min(length, self.model.length))

    def _extend(self, tokens: list[int]) -> Tensor:
        """Cache `tokens`; logits [V] of the next one, or nothing [0] after none."""
        logits = torch.empty(0)
        for chunk in self.model.extend(tokens):
            logits = chunk.logits[-1]
        self._drafted += tokens
        return logits

    def _rewind(self, length: int) -> None:
        self.model.rewind(length)
        del self._drafted[length:]


class SampledDraftModel(DraftModel):
    """The textbook's speculative sampling: each token is drawn from the draft model's distribution.

    The text is the target's in distribution, not token by token; at temperature 0 it is, as ever.
    """

    def __init__(self, model: CausalModel, vocabulary: int, depth: int) -> None:
        super().__init__(model, vocabulary, depth)
        self._q: list[Tensor] = []  # [V] each, what the last chain's nodes were drawn from

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """Root, then up to `depth` tokens drawn with noise of their own."""
        if sampler.greedy:
            return super().propose(tokens, sampler)
        own, text, self._q = drafts_of(sampler), list(tokens), []
        for _ in range(min(self.depth, self.model.context - self.model.length)):
            logits = self._extend(text[-1:])
            self._q.append(own.scores(logits, text).softmax(-1))
            text.append(own.pick(logits, text))
        tree = DraftTree.chain(text[len(tokens) - 1 :])
        chances = [1.0, *(q[token].item() for q, token in zip(self._q, text[len(tokens) :], strict=True))]
        return replace(tree, values=torch.tensor(chances).log().cumsum(0))

    def accept(
        self, tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler
    ) -> tuple[list[int], int]:
        """By the ratio of both models' probabilities."""
        if sampler.greedy:
            return accept(tree, logits, prefix, sampler)
        return accept_sampled(tree, logits, prefix, sampler, self._q)
