"""Independent, slow and obvious: sampling in numpy's float64 and SplitMix64 in Python's integers."""

from __future__ import annotations

import math

import numpy as np
import torch
from transformers import PreTrainedModel

from engine import GenerationSettings

WORD = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    """SplitMix64's finaliser (Steele, Lea and Flood, 2014)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def token_bits(seed: int, position: int, token: int) -> int:
    """64 bits for one token at one position: the stream's start is mixed from seed and position."""
    state = mix((mix(seed) + position * GAMMA) & WORD)
    return mix((state + (token + 1) * GAMMA) & WORD)


def gumbel_noise(seed: int, position: int, token: int) -> float:
    """-log(-log(u)), u from the upper 53 bits."""
    upper = token_bits(seed, position, token) >> 11
    return -math.log(-math.log(max(upper, 0.5) / 2**53))


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities of scores that may be -inf."""
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def processed(logits: np.ndarray, prefix: list[int], settings: GenerationSettings) -> np.ndarray:
    """Penalty, temperature, top-k, top-p, min-p, one after the other."""
    scores = logits.astype(np.float64).copy()
    for token in set(prefix):
        penalty = settings.repetition_penalty
        scores[token] = scores[token] / penalty if scores[token] > 0 else scores[token] * penalty
    if settings.temperature == 0:
        return scores
    scores /= settings.temperature
    if 0 < settings.top_k < len(scores):
        scores[scores < np.sort(scores)[-settings.top_k]] = -np.inf
    if settings.top_p < 1:
        order = np.argsort(-scores)
        p = softmax(scores)[order]
        before = np.cumsum(p) - p  # mass of the more likely ones
        scores[order[before >= settings.top_p]] = -np.inf
    if settings.min_p > 0:
        p = softmax(scores)
        scores[p < settings.min_p * p.max()] = -np.inf
    return scores


def reference_reply(model: PreTrainedModel, prompt: list[int], settings: GenerationSettings) -> list[int]:
    """The whole text through the model for every token, then argmax of score plus noise."""
    tokens = list(prompt)
    for _ in range(settings.max_new_tokens):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
        scores = processed(logits.numpy(), tokens, settings)
        if settings.temperature > 0:
            position = len(tokens)
            scores += [gumbel_noise(settings.seed, position, token) for token in range(len(scores))]
        tokens.append(int(scores.argmax()))
    return tokens[len(prompt) :]
