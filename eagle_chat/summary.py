"""The summary of a reply, with the keys of the JSON that `run --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagle_chat.statistics import ReplyStatistics

if TYPE_CHECKING:
    from eagle_chat.events import SessionInfo


STOPPED_BY_USER = "user"
HOW_IT_ENDED = {  # `stopped_by` of replies that did not come to their own end
    STOPPED_BY_USER: "stopped",
    "max_new_tokens": "cut at --max-new-tokens",
    "context": "cut where the context is full",
}


@dataclass
class Outcome:
    """What a reply has come to so far."""

    method: str
    seed: int
    statistics: ReplyStatistics = field(default_factory=ReplyStatistics)
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    stopped_by: str = STOPPED_BY_USER  # until the engine names another reason


def summarise(info: SessionInfo, outcome: Outcome) -> dict[str, Any]:
    """Times are the engine's; `timings_ms` add up to `seconds`. `tau` is null where no round was run."""
    statistics = outcome.statistics
    timings = {
        "prefill": statistics.prefill_ms,
        "draft": statistics.draft_ms,
        "verify": statistics.verify_ms,
        "other": statistics.other_ms,
    }
    return {
        "text": outcome.text,
        "tokens": outcome.tokens,
        "new_tokens": len(outcome.tokens),
        "rounds": statistics.rounds,
        "tau": statistics.tau,
        "tokens_per_second": statistics.tokens_per_second,
        "seconds": sum(timings.values()) / 1000,
        "timings_ms": timings,
        "method": outcome.method,
        "model": info.model,
        "weights_sha256": info.weights_sha256,
        "dtype": info.dtype,
        **quantization(info),
        "seed": outcome.seed,
        "temperature": info.temperature,
        "stopped_by": outcome.stopped_by,
    }


def quantization(info: SessionInfo) -> dict[str, str]:
    """The key `quant` where weights are quantized; other runs keep to the keys that scripts know."""
    return {} if info.quant == "none" else {"quant": info.quant}


def one_line(summary: Mapping[str, Any]) -> str:
    """`47 tokens · 62.1 tok/s · τ 1.83 · eagle2 · seed 1234`, from a summary."""
    line = figures(
        summary["new_tokens"],
        summary["tokens_per_second"],
        summary["tau"],
        summary["method"],
        summary["seed"],
    )
    end = HOW_IT_ENDED.get(summary["stopped_by"])
    return f"{line} · {end}" if end else line


def figures(tokens: int | None, speed: float | None, tau: float | None, method: str, seed: int) -> str:
    """The figures of a reply; what is unknown is left out."""
    parts = [
        "" if tokens is None else f"{tokens} token{'' if tokens == 1 else 's'}",
        f"{speed:.1f} tok/s" if speed else "",
        f"τ {tau:.2f}" if tau else "",
        "plain decoding" if method == "none" else method,
        f"seed {seed}",
    ]
    return " · ".join(part for part in parts if part)
