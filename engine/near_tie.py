"""When two runs part in half precision: how close the call was, by fp32.

Kernels depend on the number of rows, so verifying N nodes and decoding one token round differently in bf16 or
fp16. A first difference is explained where fp32 has the two best tokens nearly tied; anywhere else it is a
bug.

Of a quantized model fp32 means: its own weights, the numbers that the 8 or 4 bits stand for, multiplied in
fp32. That is the one model which verifying and plain decoding both approximate; the model that was quantized
is another one, with other near ties. What int8 rounds besides, the inputs of each product, counts as
rounding: a last bit that differs there moves a whole step of 1/127, hence a larger limit.
"""

from __future__ import annotations

import gc
from pathlib import Path

import torch
from transformers import PreTrainedModel

from engine.load import load_model
from engine.memory import free_cached_memory
from engine.quantized import dequantized, quantization_of
from engine.sampling import GenerationSettings, Sampler

NEAR_TIE = 0.5
"""Largest fp32 gap between the two best scores (at T > 0 noise included) that rounding may explain.

The largest seen at a first difference of SmolLM2-135M in bf16 was 0.29, in 72 comparisons over the six tasks.
"""

NEAR_TIE_INT8 = 1.5
"""The same for int8 weights.

Scores of one row and of many differ four times as much as nf4's (SmolLM2-135M in bf16, 64 random tokens: 0.32
and 0.08), and the largest gap where their best tokens did was 0.78.
"""

LARGEST = 3_000_000_000  # parameters: above, an fp32 copy would not fit beside the model on most machines


def fp32_gap(model: PreTrainedModel, prefix: list[int], settings: GenerationSettings) -> float | None:
    """The gap between the two best scores after `prefix`, by an fp32 copy of `model` on the CPU.

    None where the model is too large for that.
    """
    if model.num_parameters() > LARGEST:
        return None
    gap = top2_gap(in_fp32(model), prefix, settings)
    gc.collect()  # modules refer to each other, so that the copy would stay for a while
    free_cached_memory()
    return gap


def near_tie_limit(model: PreTrainedModel) -> float:
    """The largest gap that rounding may explain in `model`."""
    return NEAR_TIE_INT8 if quantization_of(model) == "int8" else NEAR_TIE


def in_fp32(model: PreTrainedModel) -> PreTrainedModel:
    """`model` itself where it can be had, else from its files.

    A quantized one is quantized again: products may have changed the layout of the first one's weights.
    """
    folder, cpu = Path(model.config.name_or_path), torch.device("cpu")
    quantization = quantization_of(model)
    if quantization != "none":
        return dequantized(load_model(folder, model.dtype, cpu, quantization))
    given_up = any(weight.is_meta for weight in model.parameters())  # to our own decoder
    if model.dtype == torch.float32 and not given_up:
        return model
    return load_model(folder, torch.float32, cpu)


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
