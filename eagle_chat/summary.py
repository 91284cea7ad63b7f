"""The summary of a reply, with the keys of the JSON that `run --json` prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eagle_chat.events import SessionInfo
from eagle_chat.statistics import ReplyStatistics


@dataclass
class Reply:
    """What a reply is while it grows."""

    method: str
    seed: int
    statistics: ReplyStatistics = field(default_factory=ReplyStatistics)
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    stopped_by: str = "user"  # until the engine names another reason


def summarise(info: SessionInfo, reply: Reply) -> dict[str, Any]:
    """Times are the engine's; `timings_ms` add up to `seconds`. `tau` is null where no round was run."""
    statistics = reply.statistics
    timings = {
        "prefill": statistics.prefill_ms,
        "draft": statistics.draft_ms,
        "verify": statistics.verify_ms,
        "other": statistics.other_ms,
    }
    return {
        "text": reply.text,
        "tokens": reply.tokens,
        "new_tokens": len(reply.tokens),
        "rounds": statistics.rounds,
        "tau": statistics.tau,
        "tokens_per_second": statistics.tokens_per_second,
        "seconds": sum(timings.values()) / 1000,
        "timings_ms": timings,
        "method": reply.method,
        "model": info.model,
        "weights_sha256": info.weights_sha256,
        "dtype": info.dtype,
        "seed": reply.seed,
        "temperature": info.temperature,
        "stopped_by": reply.stopped_by,
    }


def one_line(summary: dict[str, Any]) -> str:
    """`47 tokens · 62.1 tok/s · τ 1.83 · eagle2 · seed 1234`; what is unknown is left out."""
    speed, tau = summary["tokens_per_second"], summary["tau"]
    parts = [
        f"{summary['new_tokens']} tokens",
        f"{speed:.1f} tok/s" if speed else "",
        f"τ {tau:.2f}" if tau else "",
        summary["method"],
        f"seed {summary['seed']}",
        "stopped" if summary["stopped_by"] == "user" else "",
    ]
    return " · ".join(part for part in parts if part)
