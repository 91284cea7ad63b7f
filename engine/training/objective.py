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

    `target_head` [V, H] is the target's LM head and `draft_vocab` [D] the ids of the draft vocabulary, all by
    default. A head with the target's rows learns to propose the tokens of the text, too.
    """

    def __init__(
        self,
        network: DraftNetwork,
        embedding: nn.Embedding,
        target_head: Tensor,
        settings: TrainingSettings,
        draft_vocab: Tensor | None = None,
    ) -> None:
        self.network, self.embedding, self.settings = network, embedding, settings
        self.target_head = target_head
        self.draft_vocab = None if draft_vocab is None else draft_vocab.to(target_head.device)
        # fp16 has too few exponents for gradients; bf16 is what the hardware multiplies well
        self.dtype = torch.float32 if target_head.dtype == torch.float16 else target_head.dtype
        self.halved = self.dtype == torch.bfloat16

    def __call__(self, batch: Batch, steps: int) -> tuple[Tensor, Measured]:
        """The loss of `steps` steps, a scalar, and its parts."""
        device, dtype, hidden = self.target_head.device, self.dtype, self.target_head.shape[1]
        tokens, real = batch.tokens.to(device), batch.real[:, 1:].to(device)
        features = batch.features.to(device, dtype)
        final = features[:, 1:, -hidden:].flatten(0, 1)  # [n, H] what is to be estimated
        with torch.autocast(device.type, torch.bfloat16, enabled=self.halved):
            outputs = self.network(self.embedding(tokens).to(dtype), features[:, :-1], steps)
            scored = torch.stack([self.network.scored(output) for output in outputs])
        weights, rows = self._weights(real, steps), self._rows(tokens)
        total, losses, hits = SoftCrossEntropy.apply(
            scored.flatten(1, 2).to(dtype),
            final,
            self.network.lm_weight(rows).to(dtype),
            rows,
            weights,
        )
        if self.settings.regression:
            for output, row in zip(outputs, weights, strict=True):
                distance = F.smooth_l1_loss(output.flatten(0, 1).float(), final.float(), reduction="none")
                total = total + self.settings.regression * (distance.mean(-1) * row).sum()
        return total, Measured(tuple(losses.tolist()), tuple(hits.tolist()))

    def _rows(self, tokens: Tensor) -> Tensor:
        """[D, H] of the target's LM head, of what can be proposed in a text of these tokens."""
        if self.draft_vocab is None:
            return self.target_head.to(self.dtype)
        proposed = self.draft_vocab
        if self.network.proposes_text:
            proposed = torch.cat((proposed, tokens.flatten())).unique()
        return self.target_head[proposed].to(self.dtype)

    def _weights(self, real: Tensor, steps: int) -> Tensor:
        """[J, B * T] of each pair in the loss: step j means something from pair j on."""
        pairs = torch.arange(real.shape[1], device=real.device)
        rows = [real * (pairs >= step) * self.settings.step_decay**step for step in range(steps)]
        return torch.stack(rows).flatten(1).float() / real.sum().clamp(min=1)
