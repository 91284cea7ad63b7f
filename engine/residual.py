"""Speculative sampling: the textbook rule for drafts that were sampled (Leviathan et al.; Chen et al., 2023).

A draft of the drafter's probability q and the target's p is accepted with probability p / q, and in place of
one that is not a token is drawn from max(p - q, 0). The text has the target's distribution; it is another
text than plain decoding's with the same seed, which is why `engine.verify` is the rule for all else.

Every draw is keyed by seed and position, as in `engine.sampling`, and drafts, acceptance and redraws have
streams of their own. A position is drafted again after a rejection before it, with the same noise: nothing
that was committed up to there has looked at it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

from torch import Tensor

from engine.sampling import Sampler, uniform
from engine.tree import DraftTree

# What the seed is mixed with, for streams of their own.
_DRAFTS, _ACCEPTANCE = 0x5DEECE66D, 0x2545F4914F6CDD1D


@runtime_checkable
class OwnRule(Protocol):
    """A drafter that is not verified by `engine.verify`."""

    def accept(
        self, tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler
    ) -> tuple[list[int], int]:
        """As `engine.verify.accept`."""


def drafts_of(sampler: Sampler) -> Sampler:
    """The same filters and temperature, with noise that the target's draws do not see."""
    settings = sampler.settings
    return Sampler(replace(settings, seed=settings.seed ^ _DRAFTS))


def residual(p: Tensor, q: Tensor) -> Tensor:
    """What a token is drawn from where a draft from q was refused, [V]; not normalised."""
    return (p - q).clamp(min=0)


def accept_sampled(
    tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler, drafted: list[Tensor]
) -> tuple[list[int], int]:
    """Accepted path and the token after it, of a chain whose nodes were sampled from `drafted`, each [V]."""
    path, prefix = [0], list(prefix)
    for node, q in zip(range(1, len(tree)), drafted, strict=False):
        token = tree.host.tokens[node]
        p = sampler.scores(logits[path[-1]], prefix).softmax(-1)
        chance = uniform(sampler.settings.seed ^ _ACCEPTANCE, len(prefix), 1)
        if chance.item() * q[token].item() >= p[token].item():
            noise = sampler.noise(len(prefix), len(p), p.device)
            return path, int((residual(p, q).log().to(noise.device).double() + noise).argmax())
        path.append(node)
        prefix.append(token)
    return path, sampler.pick(logits[path[-1]], prefix)
