"""`train --corpus`: the conversations that another run of the same target wrote, only ever read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from eagle_chat.errors import UsageError
from eagle_chat.training_plan import Plan

if TYPE_CHECKING:
    from engine.training import Corpus, Sizes, Speeds


def lender(folder: Path, weights_sha256: str, model: str) -> Path:
    """The run whose conversations those of `folder` are. Raises UsageError where they are of no use."""
    plan = Plan.read(folder)
    if plan is None:
        raise UsageError(f"there is no training run in {folder}: check the path given with --corpus")
    if plan.weights_sha256 != weights_sha256:
        raise UsageError(
            f"the conversations in {folder} are those of {plan.model}, which has other weights than {model}: "
            "leave --corpus out to have some written"
        )
    return Path(plan.corpus) if plan.corpus else folder.resolve()


def borrow(corpus: Corpus, plan: Plan, tokens: int | None) -> Plan:
    """Have `corpus` read the lender's shards, `tokens` or all of them; the plan with what there is.

    Raises UsageError where there are fewer.
    """
    assert plan.corpus is not None
    folder = Path(plan.corpus)
    corpus.borrow(folder / "corpus", tokens or 2**62)
    there = corpus.tokens
    if there == 0:
        raise UsageError(f"{folder} has no conversations, or no longer: take another run's, or none")
    if there < (tokens or 0):
        raise UsageError(f"{folder} has conversations of {there:,} tokens: --tokens cannot be more")
    return replace(plan, tokens=tokens or there)


def reading_only(corpus: Corpus, read: float, speeds: Speeds, sizes: Sizes) -> tuple[Speeds, Sizes]:
    """What it takes where nothing is written: features alone, as far as the lender has none.

    `read` tokens per second.
    """
    lacking = set(corpus.without_features())
    missing = sum(place.length for number in lacking for place in corpus.places[number])
    share = missing / max(1, corpus.tokens)
    written = read / share if share else float("inf")
    return replace(speeds, written=written), replace(sizes, token=int(sizes.token * share))
