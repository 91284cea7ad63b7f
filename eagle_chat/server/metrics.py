"""How many drafted tokens a server accepted: the counters that it publishes, before and after a reply.

vLLM counts drafts, drafted and accepted tokens, and accepted ones by position, for the whole server. SGLang
publishes a running mean of tokens per forward. llama.cpp's server counts each reply and says so in its last
event. Others say nothing, and neither do we.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eagle_chat.records import Acceptance

SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
POSITION = re.compile(r'\bposition="(\d+)"')
DRAFTS, DRAFTED, ACCEPTED, BY_POSITION, GENERATED = (
    "vllm:spec_decode_num_drafts",
    "vllm:spec_decode_num_draft_tokens",
    "vllm:spec_decode_num_accepted_tokens",
    "vllm:spec_decode_num_accepted_tokens_per_pos",
    "vllm:generation_tokens",
)
SGLANG_TAU = "sglang:spec_accept_length"


@dataclass(frozen=True, slots=True)
class Counters:
    """What of a metrics page is about drafts, summed over the engines of the server."""

    sums: Mapping[str, float]
    by_position: Mapping[int, float]
    sglang_tau: float | None = None

    @property
    def of_vllm(self) -> bool:
        """Whether these are vLLM's, of a server that drafts."""
        return DRAFTS in self.sums


def read_counters(page: str) -> Counters:
    """The samples of a page in Prometheus' text format; lines that are none are passed over."""
    sums: dict[str, float] = {}
    by_position: dict[int, float] = {}
    means: list[float] = []
    for line in page.splitlines():
        match = SAMPLE.match(line)
        value = _number(match[3]) if match else None
        if match is None or value is None:
            continue
        name = match[1].removesuffix("_total")
        if name == SGLANG_TAU:
            means.append(value)
        elif name == BY_POSITION:
            if found := POSITION.search(match[2] or ""):
                by_position[int(found[1])] = by_position.get(int(found[1]), 0.0) + value
        elif name in (DRAFTS, DRAFTED, ACCEPTED, GENERATED):
            sums[name] = sums.get(name, 0.0) + value
    means = [mean for mean in means if mean > 0]  # 0 until the first one
    return Counters(sums, by_position, sum(means) / len(means) if means else None)


def acceptance_between(before: Counters, after: Counters, new_tokens: int | None) -> Acceptance | None:
    """What was accepted between two looks at the counters; `new_tokens` is how long our reply is."""
    if not after.of_vllm:
        return Acceptance("SGLang", after.sglang_tau) if after.sglang_tau is not None else None
    grown = {name: round(after.sums.get(name, 0) - before.sums.get(name, 0)) for name in after.sums}
    drafts, accepted = grown[DRAFTS], grown.get(ACCEPTED, 0)
    if drafts <= 0 or accepted < 0:  # it drafted nothing, or was started anew
        return None
    positions = range(max(after.by_position, default=-1) + 1)
    at = [after.by_position.get(place, 0) - before.by_position.get(place, 0) for place in positions]
    return Acceptance(
        source="vLLM",
        tau=1 + accepted / drafts,
        drafts=drafts,
        drafted=grown.get(DRAFTED),
        accepted=accepted,
        by_depth=tuple(count / drafts for count in at),
        others=new_tokens is not None and grown.get(GENERATED, 0) > new_tokens,
    )


def acceptance_in(timings: Mapping[str, Any] | None) -> Acceptance | None:
    """What llama.cpp's server says about one reply: every round commits what it accepts and one more."""
    names = ("predicted_n", "draft_n", "draft_n_accepted")
    counts = [timings.get(name) for name in names] if timings else [None]
    if not all(isinstance(count, int) for count in counts):
        return None
    new_tokens, drafted, accepted = (int(count or 0) for count in counts)
    rounds = new_tokens - 1 - accepted
    if drafted <= 0 or rounds <= 0:
        return None
    tau = (new_tokens - 1) / rounds
    return Acceptance("llama.cpp", tau, drafted=drafted, accepted=accepted, shared=False)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value - value == 0 else None  # neither NaN nor infinite
