"""From the engine's rounds, whose tensors live until the next one, to records that can be kept."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from eagle_chat.records import Dropped, RoundRecord, SizingRecord, TreeRecord

if TYPE_CHECKING:
    from eagle_chat.text import Vocabulary
    from engine import Growth, Round, Sizing

MOST_DROPPED = 24  # of what was drawn and not kept, the best ones recorded


def record_round(step: Round, vocabulary: Vocabulary, watched: bool) -> RoundRecord:
    """The record of `step`; the target's probabilities and dropped candidates only where somebody watches."""
    noise = step.noise() if watched else None
    return RoundRecord(
        index=step.index,
        new=tuple(step.new),
        texts=tuple(vocabulary.bytes_of(token) for token in step.new),
        tree=_record_tree(step, vocabulary, watched, noise),
        path=tuple(step.path),
        bonus=None if step.bonus is None else len(step.new) - 1,
        bonus_target=step.bonus_probability() if watched else None,
        draft_ms=1000 * step.timing.draft,
        verify_ms=1000 * step.timing.verify,
        other_ms=1000 * step.timing.other,
        bonus_noise=noise[-1] if noise else None,
    )


def _record_tree(
    step: Round, vocabulary: Vocabulary, watched: bool, noise: list[float | None] | None
) -> TreeRecord:
    tree = step.tree
    tokens, parents = tree.host
    record = TreeRecord(
        tokens=tuple(tokens),
        texts=tuple(vocabulary.bytes_of(token) for token in tokens),
        parents=tuple(parents),
        values=None if tree.values is None else tuple(tree.values.tolist()),
        target=tuple(step.probabilities()) if watched else None,
        noise=tuple(noise[:-1]) if noise else None,
        looked_up=tree.looked_up,
        sizing=None if tree.sizing is None else _record_sizing(tree.sizing),
    )
    if not watched or tree.growth is None:
        return record
    return _with_growth(record, tree.growth, vocabulary)


def _record_sizing(sizing: Sizing) -> SizingRecord:
    return SizingRecord(sizing.expected, 1000 * sizing.seconds, 1000 * sizing.plain, sizing.why)


def _with_growth(record: TreeRecord, growth: Growth, vocabulary: Vocabulary) -> TreeRecord:
    tokens, parents, expanded, kept = (
        column.tolist() for column in (growth.tokens, growth.parents, growth.expanded, growth.kept)
    )
    values: list[float] = growth.values.tolist()
    depths = [0] * len(tokens)
    for i, parent in enumerate(parents):
        depths[i] = 1 if parent < 0 else depths[parent] + 1
    # Ancestors first: expanded ones, then the best of the rest; a node comes in only after its parent.
    node_of = {-1: 0} | {i: n for n, i in enumerate((i for i in range(len(tokens)) if kept[i]), start=1)}
    dropped: list[Dropped] = []
    left = [i for i in range(len(tokens)) if not kept[i]]
    for i in sorted(left, key=lambda i: (not expanded[i], -values[i], i)):
        if len(dropped) == MOST_DROPPED:
            break
        if parents[i] in node_of:
            node_of[i] = len(record.tokens) + len(dropped)
            above = 0.0 if parents[i] < 0 else values[parents[i]]
            dropped.append(
                _dropped(tokens[i], node_of[parents[i]], values[i], above, expanded[i], vocabulary)
            )
    drawn = tuple(depths.count(depth) for depth in range(1, max(depths) + 1))
    kept_values = record.values[1 : 1 + sum(kept)] if record.values else ()  # others may hang below
    cutoff = min(kept_values) if kept_values and len(tokens) > len(kept_values) else None
    return replace(record, dropped=tuple(dropped), drawn=drawn, cutoff=cutoff)


def _dropped(
    token: int, parent: int, value: float, above: float, expanded: bool, vocabulary: Vocabulary
) -> Dropped:
    return Dropped(token, vocabulary.bytes_of(token), parent, math.exp(value - above), value, expanded)
