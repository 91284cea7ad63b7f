"""Where training starts: the best linear guess of the next feature, solved in seconds.

Ridge regression of the target's next feature on what an EAGLE-1/2 head reads gives, before any step of
training, what gradient descent from small random weights needs hundreds of thousands of tokens for (measured
on SmolLM2-135M: 0.35 of the target's best tokens found after two seconds, against 0.20 after 300,000 tokens).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.training.batches import Batch, load_batch, plan_batches
from engine.training.corpus import Corpus, Place
from engine.training.network import DraftNetwork, Eagle3Network

PAIRS = 40_000  # to solve for
RIDGE = 1e-3  # of the inputs' mean square, added to the diagonal


@torch.no_grad()
def start_linear(
    network: DraftNetwork, embedding: nn.Embedding, corpus: Corpus, places: list[Place], longest: int
) -> None:
    """Set `fc` to the linear guess; the layer's two outputs start at zero, so that it passes through."""
    hidden = embedding.embedding_dim
    sums = _Sums()
    for part in plan_batches(places, 4 * longest, longest, seed=0):
        sums.add(*_pairs(load_batch(corpus, part, longest), embedding, network, hidden))
        if sums.rows >= PAIRS:
            break
    weight, bias = sums.solve()
    network.fc.weight.copy_(weight)
    if network.fc.bias is not None:
        network.fc.bias.copy_(bias)
    if isinstance(network, Eagle3Network):
        network.norm.weight.fill_(sums.output_scale())  # its outputs are normed once more
    nn.init.zeros_(network.layer.self_attn.o_proj.weight)
    nn.init.zeros_(network.layer.mlp.down_proj.weight)


def _pairs(
    batch: Batch, embedding: nn.Embedding, network: DraftNetwork, hidden: int
) -> tuple[Tensor, Tensor]:
    """Inputs of `fc` [n, inputs] and what it should make of them [n, H], fp32."""
    real = batch.real[:, 1:]
    features = batch.features[:, :-1]
    if isinstance(network, Eagle3Network):
        inputs = features[..., : network.fc.in_features]
    else:
        tokens = batch.tokens[:, 1:].to(embedding.weight.device)
        inputs = torch.cat((embedding(tokens).cpu().float(), features.float()), dim=-1)
    # An EAGLE-3 head's own outputs skip `fc`, so that what it gives must be of the same place as they are.
    goal = batch.features[:, :-1] if isinstance(network, Eagle3Network) else batch.features[:, 1:]
    return inputs[real].float(), goal[..., -hidden:][real].float()


class _Sums:
    """What least squares needs of the data."""

    def __init__(self) -> None:
        self.rows = 0
        self.xx: Tensor | float = 0.0
        self.xy: Tensor | float = 0.0
        self.yy = 0.0

    def add(self, x: Tensor, y: Tensor) -> None:
        x = torch.cat((x, x.new_ones(len(x), 1)), dim=1)
        self.xx = self.xx + x.T @ x
        self.xy = self.xy + x.T @ y
        self.yy += y.square().mean(-1).sqrt().sum().item()
        self.rows += len(x)

    def solve(self) -> tuple[Tensor, Tensor]:
        """Weight [outputs, inputs] and bias [outputs]."""
        assert isinstance(self.xx, Tensor)
        assert isinstance(self.xy, Tensor)
        ridge = RIDGE * self.xx.diagonal().mean() * torch.eye(len(self.xx))
        solution = torch.linalg.solve(self.xx + ridge, self.xy)
        return solution[:-1].T, solution[-1]

    def output_scale(self) -> float:
        """Mean root of the mean square of an output."""
        return self.yy / max(1, self.rows)
