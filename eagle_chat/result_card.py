"""The result card of two runs: what one needs to believe a number and to measure it again, as plain text."""

from collections.abc import Mapping, Sequence
from typing import Any

from eagle_chat import __version__
from eagle_chat.bench_machine import without_path
from eagle_chat.events import SessionInfo
from eagle_chat.layout.tokens import truncate
from eagle_chat.summary import HOW_IT_ENDED
from eagle_chat.visible import visible

WIDEST_PROMPT = 66  # cells


def method_name(method: str) -> str:
    """A method id as a person says it."""
    return "plain" if method == "none" else method


def result_card(
    prompt: str, summaries: Sequence[Mapping[str, Any]], verdict: str, info: SessionInfo, machine: str
) -> str:
    """A title, then a line for every fact; `info` is of the run that drafted."""
    first = summaries[0]
    temperature, seed = f"T={first['temperature']:g}", f"seed {first['seed']}"
    rows = [
        ("prompt", truncate(" ".join(prompt.split()), WIDEST_PROMPT)),
        *((method_name(each["method"]), _figures(each)) for each in summaries),
        ("result", verdict),
        ("model", " · ".join((without_path(info.model), first["dtype"], temperature, seed))),
        ("head", without_path(info.head) if info.head else ""),
        ("machine", f"{machine} · {info.device}"),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {visible(fact)}" for name, fact in rows if fact]
    return "\n".join([f"eagle-chat {__version__} · result", *lines])


def _figures(summary: Mapping[str, Any]) -> str:
    parts = [f"{summary['new_tokens']} tokens"]
    parts += [f"τ {summary['tau']:.2f}"] if summary["tau"] is not None else []
    parts += [f"{summary['tokens_per_second']:.1f} tok/s"] if summary["tokens_per_second"] is not None else []
    if end := HOW_IT_ENDED.get(summary["stopped_by"]):
        parts.append(end)
    return " · ".join(parts)
