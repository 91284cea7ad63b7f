"""Traces from files that anybody may have written: read, and checked before anything is drawn from them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

from eagle_chat.errors import EagleChatError
from eagle_chat.events import RoundDone, SessionInfo
from eagle_chat.records import SizingRecord, TreeRecord
from eagle_chat.trace import Trace, read_trace


def load_recording(path: Path) -> Trace:
    """The trace. Raises EagleChatError naming the file and the problem where it cannot be replayed."""
    trace = read_trace(path)
    if not trace.rounds:
        raise EagleChatError(f"{path} has no rounds, so there is nothing to replay: record it again")
    if not (_sound_header(trace) and _sound_summary(trace.summary)):
        raise EagleChatError(f"{path} is damaged (its header or summary): record it again")
    for number, done in enumerate(trace.rounds):
        if not _sound(done, number):
            raise EagleChatError(f"{path} is damaged (round {number}): record it again")
    for marker in trace.markers:
        if not 0 <= marker.round < len(trace.rounds):
            raise EagleChatError(
                f"{path} has a marker for round {marker.round}, but rounds 0 to {len(trace.rounds) - 1}: "
                "correct that line"
            )
    return trace


def _sound_header(trace: Trace) -> bool:
    header, info = trace.header, trace.info
    return (
        _texts((header.get("prompt"), header.get("method"), *_words(info)))
        and _numbers((header.get("seed"), trace.prompt_tokens, info.temperature))
        and _whole((info.context, info.nodes, info.depth, info.beam))
    )


def _words(info: SessionInfo) -> tuple[str, ...]:
    return (info.model, info.method, info.dtype, info.quant, info.device, info.weights_sha256)


def _sound_summary(summary: Any) -> bool:
    if summary is None:
        return True
    return (
        isinstance(summary, dict)
        and _texts(summary.get(key) for key in ("text", "method", "stopped_by"))
        and _whole((summary.get("new_tokens"), summary.get("seed")))
        and isinstance(tokens := summary.get("tokens"), list)
        and _whole(tokens)
        and _numbers(summary[key] for key in ("tau", "tokens_per_second") if summary.get(key) is not None)
        and {"tau", "tokens_per_second"} <= summary.keys()
    )


def _sound(done: RoundDone, number: int) -> bool:
    record, tree = done.record, done.record.tree
    times = (record.draft_ms, record.verify_ms, record.other_ms)
    return (
        _texts([done.text])
        and _numbers(times)
        and min(times) >= 0
        and record.index == number
        and _whole(record.new)
        and len(record.texts) == len(record.new) > 0
        and (record.bonus is None or record.bonus == len(record.new) - 1)
        and _numbers_or_none((record.bonus_target, record.bonus_noise))
        and _sound_tree(tree)
        and _is_path(record.path, tree)
        and record.accepted == len(record.path) - 1
    )


def _sound_tree(tree: TreeRecord) -> bool:
    nodes = len(tree.tokens)
    columns = [column for column in (tree.values, tree.target) if column is not None]
    return (
        nodes == len(tree.texts) == len(tree.parents) > 0
        and _whole((*tree.tokens, *tree.parents, *tree.drawn, tree.looked_up))
        and tree.parents[0] == -1
        and all(0 <= parent < node for node, parent in enumerate(tree.parents[1:], start=1))
        and all(len(column) == nodes and _numbers(column) for column in columns)
        and (tree.noise is None or (len(tree.noise) == nodes and _numbers_or_none(tree.noise)))
        and all(0 <= each.parent < nodes + at for at, each in enumerate(tree.dropped))
        and _numbers(number for each in tree.dropped for number in (each.confidence, each.value))
        and (tree.cutoff is None or _numbers([tree.cutoff]))
        and _sound_sizing(tree.sizing)
    )


def _sound_sizing(sizing: SizingRecord | None) -> bool:
    return sizing is None or _numbers((sizing.expected, sizing.ms, sizing.plain_ms))


def _is_path(path: tuple[int, ...], tree: TreeRecord) -> bool:
    inside = _whole(path) and path[:1] == (0,) and all(0 <= node < len(tree.parents) for node in path)
    return inside and all(tree.parents[node] == above for above, node in pairwise(path))


def _texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _whole(values: Iterable[object]) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def _numbers_or_none(values: Iterable[object]) -> bool:
    return _numbers(value for value in values if value is not None)


def _numbers(values: Iterable[object]) -> bool:
    return all(
        isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) for value in values
    )
