"""The target's own token at a position: greedy, or sampled with noise keyed by (seed, position, token id).

Sampling is Gumbel-max: argmax(log-probability + noise) is an exact draw. Because the noise depends on nothing
but its key, a seed gives the same text with any drafter, on any device, after any cancelled or resumed reply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import (
    LogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.errors import SettingsError

# SplitMix64's constants, as torch's signed integers.
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64
_LONGEST_PATH = 64  # noise rows older than this are dropped


@dataclass(frozen=True)
class GenerationSettings:
    """How a reply is decoded. Filters apply in the order penalty, temperature, top-k, top-p, min-p."""

    temperature: float = 0.0
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off
    repetition_penalty: float = 1.0  # 1: off
    max_new_tokens: int = 512
    stop_ids: frozenset[int] = frozenset()
    seed: int = 0

    def __post_init__(self) -> None:
        checks = {
            "temperature must be a number, 0 or larger": math.isfinite(self.temperature)
            and self.temperature >= 0,
            "top_k must be 0 (off) or larger": self.top_k >= 0,
            "top_p must be above 0 and at most 1": 0 < self.top_p <= 1,
            "min_p must be between 0 and 1": 0 <= self.min_p <= 1,
            "repetition_penalty must be above 0": math.isfinite(self.repetition_penalty)
            and self.repetition_penalty > 0,
            "max_new_tokens must be 1 or larger": self.max_new_tokens >= 1,
            "seed must be between 0 and 2**63 - 1": 0 <= self.seed < 2**63,
        }
        for requirement, holds in checks.items():
            if not holds:
                raise SettingsError(requirement)


class Sampler:
    """Picks the target's own token after a prefix; greedy where temperature is 0."""

    def __init__(self, settings: GenerationSettings) -> None:
        self.settings = settings
        self.greedy = settings.temperature == 0
        self._processors = _processors(settings)
        self._noise: dict[int, Tensor] = {}  # by position: a round's nodes of one depth share a row

    def pick(self, logits: Tensor, prefix: list[int]) -> int:
        """The target's token after `prefix`, from its `logits` [V]. Ties go to the lowest id."""
        scores = self.scores(logits, prefix)
        if not self.greedy:
            noise = self.noise(len(prefix), len(scores), scores.device)
            scores = scores.to(noise.device).double() + noise
        return int(scores.argmax())

    def pick_all(self, logits: Tensor, depths: list[int], position: int) -> list[int] | None:
        """The picks at all nodes at once, `logits` [N, V], with one copy to the host.

        `position` is that of the root's pick. None where prefixes are needed, and where to draw at every node
        costs more than the copies that it saves.
        """
        if self.settings.repetition_penalty != 1:
            return None
        if self.greedy:
            return logits.float().argmax(-1).tolist()  # the argmax of bf16 is four times slower on a CPU
        return None if logits.device.type == "cpu" else self.draw_all(logits, depths, position)

    def draw_all(self, logits: Tensor, depths: list[int], position: int) -> list[int]:
        """As `pick_all`, at a temperature."""
        scores = self._processed(logits.float(), None)
        rows = [
            self.noise(position + depth, logits.shape[1], logits.device) for depth in range(max(depths) + 1)
        ]
        order = torch.tensor(depths).to(rows[0].device, non_blocking=True)
        noise = torch.stack(rows).index_select(0, order)  # [N, V]
        return (scores.to(noise.device).double() + noise).argmax(-1).tolist()

    def scores(self, logits: Tensor, prefix: list[int]) -> Tensor:
        """Logits [V] in fp32 after the processors; filtered tokens are -inf."""
        reads_prefix = self.settings.repetition_penalty != 1
        ids = torch.tensor([prefix], device=logits.device) if reads_prefix else None
        return self._processed(logits.float()[None], ids)[0]

    def probability(self, logits: Tensor, prefix: list[int], tokens: list[int]) -> list[float]:
        """p of each of `tokens` after `prefix`: after the processors at T > 0, the plain softmax at T = 0."""
        scores = logits.float() if self.greedy else self.scores(logits, prefix)
        return (scores[tokens] - scores.logsumexp(-1)).exp().tolist()

    def noise(self, position: int, vocabulary: int, device: torch.device) -> Tensor:
        """[V] float64 Gumbel noise for the token at absolute `position`.

        On the CPU where `device` has no float64.
        """
        if position not in self._noise:
            for stale in [p for p in self._noise if p < position - _LONGEST_PATH]:
                del self._noise[stale]
            device = torch.device("cpu") if device.type == "mps" else device
            self._noise[position] = gumbel(self.settings.seed, position, vocabulary, device)
        return self._noise[position]

    def _processed(self, scores: Tensor, prefix: Tensor | None) -> Tensor:
        """[N, V] after the processors, of which the penalty alone reads the `prefix` [1, T]."""
        for processor in self._processors:
            scores = processor(prefix, scores)
        return scores


def _processors(settings: GenerationSettings) -> list[LogitsProcessor]:
    """transformers' own processors. At T = 0 only the penalty can change the argmax."""
    processors: list[LogitsProcessor] = []
    if settings.repetition_penalty != 1:
        processors.append(RepetitionPenaltyLogitsProcessor(settings.repetition_penalty))
    if settings.temperature == 0:
        return processors
    if settings.temperature != 1:
        processors.append(TemperatureLogitsWarper(settings.temperature))
    if settings.top_k:
        processors.append(TopKLogitsWarper(settings.top_k))
    if settings.top_p < 1:
        processors.append(TopPLogitsWarper(settings.top_p))
    if settings.min_p > 0:
        processors.append(MinPLogitsWarper(settings.min_p))
    return processors


def gumbel(seed: int, position: int, vocabulary: int, device: torch.device | str = "cpu") -> Tensor:
    """[V] float64 standard Gumbel noise: -log(-log(u))."""
    return -torch.log(-torch.log(uniform(seed, position, vocabulary, device)))


def uniform(seed: int, position: int, count: int, device: torch.device | str = "cpu") -> Tensor:
    """[count] float64 in (0, 1), with 53 bits from `hash_bits`: no infinite noise at either end."""
    bits = _shift(hash_bits(seed, position, count, device), 11)  # 0 … 2**53 - 1
    return bits.double().clamp(min=0.5) * 2.0**-53


def hash_bits(seed: int, position: int, vocabulary: int, device: torch.device | str = "cpu") -> Tensor:
    """[V] int64 with 64 random bits for each token id: SplitMix64 (Steele et al., 2014) over a keyed counter.

    The stream of a (seed, position) starts at a state mixed from both; the token id is the counter. Integer
    operations wrap alike on every device, so the bits are exactly the same everywhere.
    """
    key = torch.tensor([seed, position])
    state = _mix(_mix(key[0]) + key[1] * _GAMMA)  # a number on the host, which no device need be sent
    return _mix(state + torch.arange(1, vocabulary + 1, device=device) * _GAMMA)


def _shift(x: Tensor, by: int) -> Tensor:
    """Logical right shift: torch's shift of a signed integer copies the sign bit, which the mask removes."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser."""
    x = (x ^ _shift(x, 30)) * _MIX_1
    x = (x ^ _shift(x, 27)) * _MIX_2
    return x ^ _shift(x, 31)
