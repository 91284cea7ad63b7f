"""Whether somebody else's model verifies trees rightly: asked of the model itself, with a small tree.

Masks and positions are arguments of every model of transformers, but not every one follows both: some count
rows for a bias of the scores, some want other masks.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from engine.quantized import quantized_layers
from engine.target import StockTarget
from engine.tree import DraftTree

FIRST, ROOT = 3, 5
CHILDREN = range(7, 23)
CLOSE, CLOSE_IN_HALF, CLOSE_IN_BITS = 0.001, 0.1, 0.3
"""What rounding may change, in standard deviations of the logits: in fp32, bf16 and fp16, int8 and nf4.

Measured with SmolLM2-135M: 3e-6, 0.025, 0.13; an ALiBi model, which counts rows, is 0.8 off.
"""


@torch.inference_mode()
def verifies_trees(target: StockTarget) -> bool:
    """Compare the last of many siblings with the plain forward of its tokens; the target is left empty."""
    if not target.past.is_kept:
        return False
    tree = DraftTree(torch.tensor([ROOT, *CHILDREN]), torch.tensor([-1, *[0] * len(CHILDREN)]))
    try:
        list(target.extend([FIRST]))
        branch = target.verify(tree)[0][-1].float()
        target.rewind(0)
        (plain,) = (part.logits[0].float() for part in target.extend([FIRST, ROOT, CHILDREN[-1]]))
        return bool((branch - plain).abs().mean() < _close(target.model) * plain.std())
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError, IndexError):
        return False  # the model does not take such arguments
    finally:
        target.rewind(0)


def _close(model: PreTrainedModel) -> float:
    if quantized_layers(model):
        return CLOSE_IN_BITS
    return CLOSE if model.dtype == torch.float32 else CLOSE_IN_HALF
