"""What the trainer asks of a head, whatever its kind.

A head makes several guesses of each pair, one for each *step*: step j reads what the head knows j tokens
before the pair, as drafting does at depth j + 1.

Parameters carry their published names. B sequences, T pairs, H hidden size, F feature width, J steps.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from engine.training.least_squares import LeastSquares


class DraftNetwork(nn.Module):
    """A head as a trainable module."""

    taps: tuple[int, ...]  # hidden states it reads, in transformers' numbering
    proposes_text = True  # whether tokens of the text join its draft vocabulary

    def steps(self, wanted: int) -> int:
        """How many to train or look at: as many as are wanted, unless it has so many heads and no more."""
        return wanted

    def forward(self, embeddings: Tensor, features: Tensor, steps: int) -> list[Tensor]:
        """What each of `steps` steps makes of T pairs, [B, T, H] each.

        `embeddings` [B, T + 1, H] of all tokens, of which the first begins no pair, and `features` [B, T, F]
        of tokens 0 … T - 1. The outputs at pair i estimate the feature of token i + 1; those of step j mean
        something from pair j on.
        """
        raise NotImplementedError

    def scored(self, outputs: Tensor) -> Tensor:
        """Outputs as the LM head takes them."""
        return outputs

    def lm_weight(self, target_rows: Tensor) -> Tensor:
        """The LM head [D, H]: the target's rows, unless the head has its own."""
        return target_rows

    def example(self, embeddings: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs [B, n, inputs] and outputs [B, n, outputs] that a linear guess should learn from.

        `embeddings` [B, T + 1, H] and `features` [B, T + 1, F] of all tokens, fp32 on the CPU. The last of
        the n rows is of the last token.
        """
        raise NotImplementedError

    def start(self, sums: LeastSquares) -> None:
        """Begin with the best linear guess of such examples."""
        raise NotImplementedError

    def config(self) -> dict[str, Any]:
        """The fields of config.json that only this kind has."""
        raise NotImplementedError
