"""Where training starts: the best linear guess of the next feature, solved in seconds.

Ridge regression of the target's next feature on what an EAGLE-1/2 head reads gives, before any step of
training, what gradient descent from small random weights needs hundreds of thousands of tokens for (measured
on SmolLM2-135M: 0.35 of the target's best tokens found after two seconds, against 0.20 after 300,000 tokens).
"""

from __future__ import annotations

import torch
from torch import nn

from engine.training.batches import load_batch, plan_batches
from engine.training.corpus import Corpus, Place
from engine.training.least_squares import LeastSquares
from engine.training.network import DraftNetwork

PAIRS = 40_000  # to solve for


@torch.no_grad()
def start_linear(
    network: DraftNetwork, embedding: nn.Embedding, corpus: Corpus, places: list[Place], longest: int
) -> None:
    """Set the network's weights to the linear guess."""
    sums = LeastSquares()
    for part in plan_batches(places, 4 * longest, longest, seed=0):
        batch = load_batch(corpus, part, longest)
        tokens = batch.tokens.to(embedding.weight.device)
        inputs, outputs = network.example(embedding(tokens).cpu().float(), batch.features.float())
        real = batch.real[:, batch.real.shape[1] - inputs.shape[1] :]
        sums.add(inputs[real], outputs[real])
        if sums.rows >= PAIRS:
            break
    network.start(sums)
