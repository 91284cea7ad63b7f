"""How far a head's outputs are from the target, without ever holding [tokens, vocabulary]."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROWS = 128  # handled at once: their logits stay in the cache


class SoftCrossEntropy(torch.autograd.Function):
    """Cross-entropy of the head's distribution against the target's, over the draft vocabulary.

    Its gradient is known in closed form, softmax(z) - p (z the head's logits, p the target's probabilities),
    so it is computed here along with the loss, a few rows at a time; storing logits and going back over them
    costs several times as much.
    """

    @staticmethod
    def forward(
        ctx: Any, outputs: Tensor, features: Tensor, head: Tensor, target_head: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The weighted sum over all rows, and each step's unweighted mean and share of hits, [J] both.

        `outputs` [J, n, H]; `features` [n, H] of the target at the same places; `head` [D, H] the LM head the
        outputs go through, `target_head` [D, H] the target's; `weights` [J, n]. Rows of weight 0 count
        nowhere. A hit is a row where both have the same best token.
        """
        steps, rows, _ = outputs.shape
        gradient = torch.empty_like(outputs)
        head_gradient = torch.zeros_like(head, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        total = outputs.new_zeros((), dtype=torch.float32)
        losses, hits = outputs.new_zeros(2, steps, dtype=torch.float32)
        for start in range(0, rows, ROWS):
            part = slice(start, start + ROWS)
            p = (features[part] @ target_head.T).float().softmax(-1)  # [r, D]
            best = p.argmax(-1)
            for step in range(steps):
                h, w = outputs[step, part], weights[step, part]
                z = (h @ head.T).float().log_softmax(-1)  # [r, D]
                loss, hit, counted = -torch.linalg.vecdot(p, z), z.argmax(-1) == best, w > 0
                total += (loss * w).sum()
                losses[step] += loss[counted].sum()
                hits[step] += hit[counted].sum()
                error = z.exp_().sub_(p).mul_(w[:, None]).to(h.dtype)  # [r, D]
                gradient[step, part] = error @ head
                if head_gradient is not None:
                    head_gradient += error.T @ h
        counts = (weights > 0).sum(-1).clamp(min=1)
        ctx.save_for_backward(gradient, head_gradient)
        losses, hits = losses / counts, hits / counts
        ctx.mark_non_differentiable(losses, hits)
        return total, losses, hits

    @staticmethod
    def backward(ctx: Any, total: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients found on the way."""
        gradient, head_gradient = ctx.saved_tensors
        scaled = None if head_gradient is None else (head_gradient * total).to(gradient.dtype)
        return gradient * total.to(gradient.dtype), None, scaled, None, None
