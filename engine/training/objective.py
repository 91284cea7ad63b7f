"""What training minimises, and what is worth knowing about it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from engine.training.batches import Batch
from engine.training.loss import SoftCrossEntropy
from engine.training.network import DraftNetwork
from engine.training.settings import TrainingSettings


@dataclass(frozen=True)
class Measured:
    """Means over pairs, by step."""

    loss: tuple[float, ...]  # cross-entropy, nats
    agreement: tuple[float, ...]  # share of pairs where head and target have the same best token


class Objective:
    """Soft cross-entropy against the target over the draft vocabulary, and distance of the features.

    `target_head` [D, H] are the draft vocabulary's rows of the target's LM head.
    """

    def __init__(
        self, network: DraftNetwork, embedding: nn.Embedding, target_head: Tensor, settings: TrainingSettings
    ) -> None:
        self.network, self.embedding, self.settings = network, embedding, settings
        # fp16 has too few exponents for gradients; bf16 is what the hardware multiplies well
        self.target_head = target_head.float() if target_head.dtype == torch.float16 else target_head
        self.halved = self.target_head.dtype == torch.bfloat16

    def __call__(self, batch: Batch, steps: int) -> tuple[Tensor, Measured]:
        """The loss of `steps` steps, a scalar, and its parts."""
        device, dtype, hidden = self.target_head.device, self.target_head.dtype, self.target_head.shape[1]
        tokens, real = batch.tokens.to(device), batch.real[:, 1:].to(device)
        features = batch.features.to(device, dtype)
        final = features[:, 1:, -hidden:].flatten(0, 1)  # [n, H] what is to be estimated
        with torch.autocast(device.type, torch.bfloat16, enabled=self.halved):
            outputs = self.network(self.embedding(tokens).to(dtype), features[:, :-1], steps)
            scored = torch.stack([self.network.scored(output) for output in outputs])
        weights = self._weights(real, steps)
        total, losses, hits = SoftCrossEntropy.apply(
            scored.flatten(1, 2).to(dtype),
            final,
            self.network.lm_weight(self.target_head).to(dtype),
            self.target_head,
            weights,
        )
        if self.settings.regression:
            for output, row in zip(outputs, weights, strict=True):
                distance = F.smooth_l1_loss(output.flatten(0, 1).float(), final.float(), reduction="none")
                total = total + self.settings.regression * (distance.mean(-1) * row).sum()
        return total, Measured(tuple(losses.tolist()), tuple(hits.tolist()))

    def _weights(self, real: Tensor, steps: int) -> Tensor:
        """[J, B * T] of each pair in the loss: step j means something from pair j on."""
        pairs = torch.arange(real.shape[1], device=real.device)
        rows = [real * (pairs >= step) * self.settings.step_decay**step for step in range(steps)]
        return torch.stack(rows).flatten(1).float() / real.sum().clamp(min=1)
