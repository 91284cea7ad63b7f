"""Drafters: whatever proposes tokens. They cannot change the text, only how much of it a round commits."""

from typing import Protocol

from torch import Tensor

from engine.sampling import Sampler
from engine.tree import DraftTree


class Drafter(Protocol):
    """Sees what the target computed and proposes a tree below the last committed token."""

    taps: tuple[int, ...]
    """Hidden states of the target it reads, in transformers' numbering; empty for none."""

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Take in what was committed since the last call.

        `tokens` are all committed tokens, the pending one last; `features` [len(tokens) - 1, F] are the true
        features of all but the pending one (None without taps); `logits` [N, V] and `path` belong to the last
        verified tree. A prompt is observed chunk by chunk, so a call may bring any number of tokens.
        """

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """A tree whose root is `tokens[-1]`."""

    def rewind(self, length: int) -> None:
        """Forget whatever depends on tokens after the first `length` + 1."""


class NoDrafter:
    """Plain decoding through the same loop: the root alone."""

    taps: tuple[int, ...] = ()

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Nothing to learn."""

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """The root."""
        return DraftTree.chain(tokens[-1:])

    def rewind(self, length: int) -> None:
        """Nothing to forget."""
