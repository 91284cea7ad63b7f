"""How a benchmark was measured: the key `settings` of `bench --json`; it goes on with the same ones only."""

from __future__ import annotations

from typing import Any

from eagle_chat.bench_asking import Plan
from eagle_chat.bench_heads import KINDS, Chosen
from eagle_chat.bench_loading import Loaded
from eagle_chat.bench_machine import without_path
from eagle_chat.options import Options


def settings(options: Options, plan: Plan, chosen: Chosen, loaded: Loaded) -> dict[str, Any]:
    """Of a run. Head and tree are those of the method that the tree options are for; the rest is of all."""
    from engine import LeanTarget

    info = loaded.session.info
    own = chosen.heads.get(KINDS.get(info.method, ""))
    return {
        "target": "lean" if isinstance(loaded.session.engine.target, LeanTarget) else "stock",
        "methods": chosen.names,
        "head": own and without_path(own.name),
        "heads": {
            kind: {"name": without_path(head.name), "weights_sha256": head.sha256}
            for kind, head in chosen.heads.items()
        },
        "nodes": info.nodes,
        "depth": info.depth,
        "beam": info.beam,
        "sized": info.sized,
        "seed": options.seed,
        "max_new_tokens": options.max_new_tokens,
        "temperatures": list(plan.temperatures),
        "top_k": options.top_k,
        "top_p": options.top_p,
        "min_p": options.min_p,
        "repetition_penalty": options.repetition_penalty,
        "system": options.system,
        "tasks": [task.name for task in plan.tasks],
        "repeats": plan.repeats,
        "prompts": plan.prompts,
        "questions_sha256": plan.fingerprint,
    }
