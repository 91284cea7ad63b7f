"""The README of a trained head: what it is, how it was made, what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

KINDS = {
    "eagle2": "EAGLE-1/2: `fc` over (embedding, feature), one Llama layer; the target's LM head",
    "eagle3": "EAGLE-3: three layers of the target fused, one Llama layer, its own norm and LM head",
    "medusa": "Medusa: for each depth a residual block and a square layer over the target's last hidden "
    "state; the target's LM head",
    "hydra": "Hydra: for each depth a residual block over the target's last hidden state and the tokens "
    "after it; the target's LM head",
    "draft-model": "draft model: a Llama of a few layers; the target's embedding and LM head",
}


def model_card(facts: Mapping[str, Any], records: list[dict[str, Any]]) -> str:
    """Markdown. `records` are those of the run's log."""
    source = f"from {Path(facts['data']).name}" if facts["data"] else "written by the target itself"
    if facts["corpus"]:
        source = f"those of the run {Path(facts['corpus']).name}"
    minutes = max(1, round(facts["seconds"] / 60))
    rows = [
        ("target", facts["model"]),
        ("target weights, SHA-256", f"`{facts['weights_sha256']}`"),
        ("kind", KINDS[facts["method"]]),
        ("parameters", f"{facts['parameters']:,}, in bf16"),
        ("draft vocabulary", f"{facts['vocabulary']:,} ids, {facts['covered']:.1%} of the tokens seen"),
        (
            "conversations",
            f"{facts['conversations']:,}, {facts['tokens']:,} tokens, {source}",
        ),
        (
            "training",
            f"{facts['pairs']:,} pairs, {facts['guesses']}, {minutes} min",
        ),
        ("command", f"`{facts['command']}`"),
    ]
    text = [f"# Draft head for {facts['model']}", "", "| what | value |", "|---|---|"]
    text += [f"| {name} | {value} |" for name, value in rows]
    best = [record for record in records if record["event"] == "validation" and record["best"]]
    if best:
        those = "conversations held out from training"
        if facts["conversations"] == 1:
            those = "the only conversation, on which it was trained"
        text += ["", f"On {those}:", "", *_measured(best[-1])]
    text += ["", "Use it with", "", f"    eagle-chat --model {facts['model']} --head THIS_FOLDER", ""]
    return "\n".join(text)


def _measured(look: dict[str, Any]) -> list[str]:
    """The table of a validation record."""
    depths = range(1, len(look["loss"]) + 1)
    rows = [
        ("depth", [str(depth) for depth in depths]),
        ("---", ["---" for _ in depths]),
        ("head's best token is the target's", [f"{share:.3f}" for share in look["agreement"]]),
        ("cross-entropy, nats", [f"{loss:.3f}" for loss in look["loss"]]),
    ]
    return [f"| {' | '.join((name, *values))} |" for name, values in rows]
