"""Which tokens a head bets on below a node, and how much.

Greedy decoding takes the target's best token, so the head's probabilities rank the candidates. A sampled
token is the argmax of the target's log-probabilities plus noise, which is keyed by (seed, position, token)
and so is known before the target is asked: the head's log-probabilities plus the same noise are a guess of
that very sum (*coupled drafting*). The text stays the target's own, since the walk takes nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.sampling import GenerationSettings, Sampler

if TYPE_CHECKING:
    from engine.drafters.calibration import Calibration
    from engine.drafters.draft_head import Scoring

TRUST = 1.0  # factor on the sum of log-probability and noise, so that its softmax gives chances
FILTERED = 1e6  # taken off what a filter removes: finite, so that differences of values are numbers
NUCLEUS = 64  # tokens that hold the mass of top-p, mostly


@dataclass(frozen=True)
class Ranking:
    """Ranks the candidates of one round, whose tree hangs below a text of `length` tokens."""

    head: Scoring
    sampler: Sampler
    length: int
    calibration: Calibration | None = None

    def best(self, hidden: Tensor, depth: int, count: int) -> tuple[Tensor, Tensor]:
        """Log-probabilities and target ids [m, count] of the best candidates at `depth` below m outputs."""
        noise = None if self.sampler.greedy else self.noise(depth, hidden.device)
        factor = self.calibration.log_factor(depth, self.sampler.greedy) if self.calibration else None
        return best_candidates(self.head, self.sampler.settings, hidden, count, noise, factor)

    def best_by_depth(self, hidden: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """As `best`, but the outputs [m, H] are at the depths 1 to m."""
        noise = None
        if not self.sampler.greedy:
            noise = torch.stack([self.noise(depth + 1, hidden.device) for depth in range(len(hidden))])
        return best_candidates(self.head, self.sampler.settings, hidden, count, noise, None)

    def noise(self, depth: int, device: torch.device) -> Tensor:
        """[D] fp32, what the target's pick at that depth will be drawn with."""
        noise = self.sampler.noise(self.length + depth - 1, self.head.target_vocabulary, device)
        drafted = self.head.draft_vocab
        return (noise if drafted is None else noise[drafted.to(noise.device)]).to(device, torch.float32)


def best_candidates(
    head: Scoring,
    settings: GenerationSettings,
    hidden: Tensor,
    count: int,
    noise: Tensor | None,
    log_factor: Tensor | float | None,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and target ids [m, count] of the best candidates below m outputs [m, H].

    `noise`, [D] or [m, D], is None for greedy decoding; `log_factor` is what acceptance says of the head's
    confidence.
    """
    scores = head.logits(hidden)  # [m, D]
    if noise is not None:
        scores = TRUST * (_filtered(scores, settings) + noise)
    values, ids = scores.log_softmax(-1).topk(count)
    if log_factor is not None:
        values = (values + log_factor).clamp(max=0)
    drafted = head.draft_vocab
    return values, ids if drafted is None else drafted.index_select(0, ids.flatten()).view_as(ids)


def _filtered(scores: Tensor, settings: GenerationSettings) -> Tensor:
    """At the temperature and through the filters; the penalty is left out."""
    scores = (scores / settings.temperature).log_softmax(-1)
    lowest = _lowest(scores, settings)
    return scores if lowest is None else torch.where(scores < lowest, scores - FILTERED, scores)


def _lowest(scores: Tensor, settings: GenerationSettings) -> Tensor | None:
    """[m, 1], the least log-probability that top-k, top-p and min-p leave; None without such filters."""
    bounds = []
    if settings.top_k:
        best = scores.topk(min(settings.top_k, scores.shape[-1])).values  # [m, k], best first
        bounds.append(best[:, -1:])
    else:
        best = _nucleus(scores, settings.top_p)
    if settings.top_p < 1:
        p = best.softmax(-1) if settings.top_k else best.exp()  # top-p takes its share of what top-k leaves
        better = p.cumsum(-1) - p  # mass of the better ones
        bounds.append(best.masked_fill(better >= settings.top_p, torch.inf).amin(-1, keepdim=True))
    if settings.min_p > 0:
        bounds.append(scores.amax(-1, keepdim=True) + math.log(settings.min_p))
    return torch.stack(bounds).amax(0) if bounds else None


def may_ask(device: torch.device) -> bool:
    """Whether to look at a value costs less than the work that it may save; a CUDA graph cannot."""
    return device.type == "cpu"


def _nucleus(scores: Tensor, top_p: float) -> Tensor:
    """The best log-probabilities [m, k], best first, that hold `top_p`; all of them where they are flat."""
    if top_p == 1:
        return scores[:, :0]
    if may_ask(scores.device):
        best = scores.topk(min(NUCLEUS, scores.shape[-1])).values
        if bool((best.exp().sum(-1) >= top_p).all()):
            return best
    return scores.sort(dim=-1, descending=True).values
