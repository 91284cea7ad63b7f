"""Medusa's and Hydra's heads as trainable modules: a head for each step, which reads no other step's output.

What goes into the target's LM head is a residual block, and in a Medusa head a square layer after it: the
published heads have an LM head each, which for a small target is larger than the target itself. Both begin as
linear guesses: that layer, and the one beside a Hydra head's block.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from engine.training.least_squares import LeastSquares
from engine.training.network import DraftNetwork


class ResidualBlock(nn.Module):
    """x + SiLU(W x + b); with `inputs` of another size R x + c + SiLU(W x + b)."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, hidden)
        self.res_connection = nn.Linear(inputs, hidden) if inputs != hidden else None
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] from [..., inputs]."""
        return (x if self.res_connection is None else self.res_connection(x)) + F.silu(self.linear(x))


class HeadsNetwork(DraftNetwork):
    """So many heads, each with a linear guess in it."""

    taps = (-1,)

    def __init__(self, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.hidden = heads, hidden

    def steps(self, wanted: int) -> int:
        """One for each head."""
        return self.heads

    def head(self, step: int) -> nn.Module:
        """The head of a step."""
        raise NotImplementedError

    def guess(self, step: int) -> nn.Linear:
        """Its linear guess: the rest of the head gives nothing at first."""
        raise NotImplementedError

    def read(self, embeddings: Tensor, features: Tensor, step: int) -> Tensor:
        """What the head of a step reads, [B, n, inputs], from all places that have so many tokens ahead."""
        raise NotImplementedError

    def forward(self, embeddings: Tensor, features: Tensor, steps: int) -> list[Tensor]:
        """As every head: pair i lies `step` pairs after the one that the head of that step reads from."""
        outputs = []
        embeddings = embeddings[:, 1:]
        for step in range(steps):
            read = self.read(embeddings, features, step)
            outputs.append(F.pad(self.head(step)(read), (0, 0, embeddings.shape[1] - read.shape[1], 0)))
        return outputs

    def example(self, embeddings: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """What the last head reads, of which the others read the beginning; the features they estimate."""
        read = self.read(embeddings[:, 1:], features[:, :-1], self.heads - 1)
        n = read.shape[1]
        return read, torch.cat([features[:, step + 1 : step + 1 + n] for step in range(self.heads)], dim=-1)

    def start(self, sums: LeastSquares) -> None:
        """One guess for each head."""
        for step in range(self.heads):
            guess = self.guess(step)
            outputs = slice(step * self.hidden, (step + 1) * self.hidden)
            weight, bias = sums.solve(guess.in_features, outputs)
            guess.weight.copy_(weight)
            guess.bias.copy_(bias)


class MedusaNetwork(HeadsNetwork):
    """Heads that all read the same feature: a block, then a square layer."""

    def __init__(self, heads: int, hidden: int) -> None:
        super().__init__(heads, hidden)
        for step in range(heads):
            parts = {"0": ResidualBlock(hidden, hidden), "to_lm_head": nn.Linear(hidden, hidden)}
            self.add_module(str(step), nn.Sequential(OrderedDict(parts)))

    def head(self, step: int) -> nn.Module:
        """By its number, which is its name."""
        return self.get_submodule(str(step))

    def guess(self, step: int) -> nn.Linear:
        """The square layer: the block passes on what it reads."""
        return cast(nn.Linear, self.get_submodule(f"{step}.to_lm_head"))

    def read(self, embeddings: Tensor, features: Tensor, step: int) -> Tensor:
        """The feature."""
        return features[:, : max(0, features.shape[1] - step)]

    def config(self) -> dict[str, Any]:
        """As published heads have them."""
        return {
            "architectures": ["MedusaModel"],
            "model_type": "medusa",
            "hidden_size": self.hidden,
            "medusa_num_heads": self.heads,
            "medusa_num_layers": 1,
        }


class HydraNetwork(HeadsNetwork):
    """Heads that also read the tokens between: a wide block."""

    def __init__(self, heads: int, hidden: int) -> None:
        super().__init__(heads, hidden)
        blocks = [ResidualBlock((step + 2) * hidden, hidden) for step in range(heads)]
        self.hydra_mlp = nn.ModuleList([nn.Sequential(block) for block in blocks])

    def head(self, step: int) -> nn.Module:
        """By its number."""
        return self.hydra_mlp[step]

    def guess(self, step: int) -> nn.Linear:
        """The layer beside the block."""
        return cast(nn.Linear, self.get_submodule(f"hydra_mlp.{step}.0.res_connection"))

    def read(self, embeddings: Tensor, features: Tensor, step: int) -> Tensor:
        """The feature, then the embeddings of the tokens after it."""
        n = max(0, features.shape[1] - step)
        return torch.cat((features[:, :n], *(embeddings[:, i : i + n] for i in range(step + 1))), dim=-1)

    def config(self) -> dict[str, Any]:
        """As published heads have them."""
        return {
            "architectures": ["HydraModel"],
            "model_type": "hydra",
            "hidden_size": self.hidden,
            "hydra_num_heads": self.heads,
            "hydra_num_layers": 1,
            "hydra_head_arch": "mlp",
            "grounded_heads": True,
            "hidden_state_offset": 0,
        }
