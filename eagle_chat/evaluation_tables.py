"""What `eagle-chat evaluate` shows without --json: tables and sentences, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from eagle_chat.evaluation import Calibration, Score, mean

DEEPEST = 6  # depths that have a column
WIDE = 500  # columns for a file or a pipe, where nothing needs to be folded


def tables(scores: Mapping[str, Score], settings: Mapping[str, Any]) -> str:
    """The text for standard output: `scores` by drafter, the one in question first.

    `settings` has the keys of the JSON object that say how it was measured.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    first = next(iter(scores.values()))
    with console.capture() as capture:
        console.print(_acceptance(first))
        if len(scores) > 1:
            console.print(_comparison(scores))
        console.print(_calibration(first.calibration), markup=False, soft_wrap=True)
        console.print(_settings(settings), markup=False, soft_wrap=True)
    return capture.get()


def _acceptance(score: Score) -> Table:
    """A row for each task and one for their mean."""
    scores = list(score.tasks.values())
    shares = [task.statistics.accepted_by_depth for task in scores]
    depths = min(DEEPEST, max((len(row) for row in shares), default=0))
    table = _table("τ", *(f"depth {depth + 1}" for depth in range(depths)), "rounds", "tokens")
    for name, task, row in zip(score.tasks, scores, shares, strict=True):
        by_depth = [row[depth] if depth < len(row) else None for depth in range(depths)]
        counts = task.statistics.rounds, task.statistics.new_tokens
        table.add_row(name, _number(task.tau), *map(_number, by_depth), *map(str, counts))
    table.add_section()
    means = [mean(row[depth] for row in shares if depth < len(row)) for depth in range(depths)]
    rounds = mean(task.statistics.rounds for task in scores)
    tokens = mean(task.statistics.new_tokens for task in scores)
    table.add_row(
        "mean", _number(score.tau), *map(_number, means), *(_number(count, 0) for count in (rounds, tokens))
    )
    return table


def _comparison(scores: Mapping[str, Score]) -> Table:
    """τ of every drafter on every task."""
    table = _table(*(f"τ {name}" for name in scores))
    for task in next(iter(scores.values())).tasks:
        found = [score.tasks.get(task) for score in scores.values()]
        table.add_row(task, *(_number(one.tau if one else None) for one in found))
    table.add_section()
    table.add_row("mean", *(_number(score.tau) for score in scores.values()))
    return table


def _table(*columns: str) -> Table:
    table = Table("task")
    for column in columns:
        table.add_column(column.replace("[", "\\["), justify="right")
    return table


def _calibration(calibration: Calibration) -> str:
    if calibration.error is None:
        return "calibration: no node with a probability was tested"
    return (
        f"calibration: {_number(calibration.expected_per_round)} accepted a round expected, "
        f"{_number(calibration.accepted_per_round)} found; "
        f"confidence off by {_number(calibration.error)}"
    )


def _settings(settings: Mapping[str, Any]) -> str:
    """`12 questions · smollm2-135m · eagle2 (smollm2-135m) · 8/3/4 … · bf16 · temperature 0 · seed 0`."""
    head = f" ({settings['head']})" if settings["head"] else ""
    questions = settings["questions"]
    parts: Sequence[str] = [
        f"{questions} question{'' if questions == 1 else 's'}",
        settings["model"],
        f"{settings['method']}{head}",
        "nodes/depth/beam {nodes}/{depth}/{beam}".format(**settings),
        settings.get("quant", settings["dtype"]),
        f"temperature {settings['temperature']:g}",
        f"seed {settings['seed']}",
        f"at most {settings['max_new_tokens']} tokens a reply",
    ]
    return " · ".join(parts)


def _number(number: float | None, digits: int = 2) -> str:
    return "–" if number is None else f"{number:.{digits}f}"
