"""A layer that follows the text: its cache holds pairs of committed tokens, with true features only."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from engine.drafters.draft_head import Follows

OBSERVE_CHUNK = 512


class Following:
    """The state that every drafter with such a head keeps; what was drafted is overwritten."""

    def __init__(self, head: Follows) -> None:
        self.head = head
        self.length = 0  # pairs in the head's cache
        self.hidden: Tensor | None = None  # [1, H], output at the last pair: the root's
        self.features: Tensor | None = None  # [length of the text - 1, F], the target's
        self.seconds = 0.0  # of the last catch-up

    def missing(self, tokens: list[int]) -> int:
        """Pairs of the text that the head has not seen."""
        return len(tokens) - 1 - self.length

    def catch_up(self, tokens: list[int]) -> None:
        """Run the head over those."""
        device, began = self.head.device, time.perf_counter()
        while (start := self.length) < len(tokens) - 1:
            assert self.features is not None
            end = min(start + OBSERVE_CHUNK, len(tokens) - 1)
            positions = torch.arange(start, end, device=device)
            causal = torch.arange(end, device=device) <= positions[:, None]  # [m, end]
            ids = torch.tensor(tokens[start + 1 : end + 1], device=device)
            fused = self.head.fuse(self.features[start:end].to(device))
            cache = self.head.layer.at(start, end - start)
            self.hidden = self.head.forward(ids, fused, positions, cache, causal)[-1:]
            self.length = end
            self.seconds = time.perf_counter() - began

    def root(self, tokens: list[int]) -> Tensor:
        """The head's output [1, H] at the last pair, once it is there; the last token is the root."""
        self.catch_up(tokens)
        assert self.hidden is not None
        return self.hidden

    def rewind(self, length: int) -> None:
        """Keep the first `length` pairs."""
        self.length = min(self.length, length)
        self.features = None
