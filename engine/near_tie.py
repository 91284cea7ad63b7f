"""When two runs part in half precision: how close the call was, by fp32.

Kernels depend on the number of rows, so verifying N nodes and decoding one token round differently in bf16 or
fp16. A first difference is explained where fp32 has the two best tokens nearly tied; anywhere else it is a
bug.
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import PreTrainedModel

from engine.load import load_model
from engine.sampling import GenerationSettings, Sampler

NEAR_TIE = 0.5
"""Largest fp32 gap between the two best scores (at T > 0 noise included) that rounding may explain.

The largest seen at a first difference of SmolLM2-135M in bf16 was 0.29, in 72 comparisons over the six tasks.
"""

LARGEST = 3_000_000_000  # parameters: above, an fp32 copy would not fit beside the model on most machines


def fp32_gap(model: PreTrainedModel, prefix: list[int], settings: GenerationSettings) -> float | None:
    """The gap between the two best scores after `prefix`, by an fp32 copy of `model` on the CPU.

    None where the model is too large for that.
    """
    if model.num_parameters() > LARGEST:
        return None
    given_up = any(weight.is_meta for weight in model.parameters())  # to our own decoder
    if model.dtype != torch.float32 or given_up:
        model = load_model(Path(model.config.name_or_path), torch.float32, torch.device("cpu"))
    return top2_gap(model, prefix, settings)


@torch.inference_mode()
def top2_gap(model: PreTrainedModel, prefix: list[int], settings: GenerationSettings) -> float:
    """The gap between the two best scores after `prefix`; `model` must be in fp32."""
    if model.dtype != torch.float32:
        raise ValueError(f"the gap is measured in float32, not {model.dtype}")
    ids = torch.tensor([prefix], device=model.device)
    logits = model(input_ids=ids, logits_to_keep=1, use_cache=False).logits[0, -1]
    sampler = Sampler(settings)
    scores = sampler.scores(logits, prefix).double().cpu()
    if not sampler.greedy:
        scores += sampler.noise(len(prefix), len(scores), scores.device)
    best, second = scores.topk(2).values.tolist()
    return best - second
