"""What `eagle-chat bench` shows without --json: a table for each temperature, and the settings, as text."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from eagle_chat.benchmark import Benchmark, Row
from eagle_chat.evaluation_tables import WIDE


def tables(benchmark: Benchmark, settings: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    """The text for standard output; `settings` and `machine` are the keys of the JSON object."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    with console.capture() as capture:
        for temperature in benchmark.temperatures:
            console.print(_table(benchmark, temperature))
        if not benchmark.asked:
            console.print("no prompt was answered by every method")
        console.print(_settings(settings, len(benchmark.asked)), markup=False, soft_wrap=True)
        console.print(_machine(machine), markup=False, soft_wrap=True)
    return capture.get()


def _table(benchmark: Benchmark, temperature: float) -> Table:
    """A section for each task, then the means over the tasks and the medians over all replies."""
    table = Table(
        "task", "method", box=box.SIMPLE, title=f"temperature {temperature:g}", padding=(0, 1, 0, 0)
    )
    for column in ("τ", "tok/s", "× plain", "× trans-\nformers", "same text"):
        table.add_column(column, justify="right")
    rows = [row for row in benchmark.rows() if row.temperature == temperature]
    for task, group in groupby(rows, key=lambda row: row.task):
        for index, row in enumerate(group):
            figures = row.tau, row.tokens_per_second, row.vs_plain, row.vs_transformers
            _add(table, task if index == 0 else "", row.method, figures, _same(row))
        table.add_section()
    summary = benchmark.summary(temperature)
    for name, prefix in (("mean", ""), ("median", "median_")):
        for index, (method, whole) in enumerate(summary.items()):
            speeds = (whole[prefix + key] for key in ("tokens_per_second", "vs_plain", "vs_transformers"))
            tau = None if prefix else whole["tau"]
            _add(table, name if index == 0 else "", method, (tau, *speeds), "")
        table.add_section()
    return table


def _add(table: Table, task: str, method: str, figures: tuple[float | None, ...], same: str) -> None:
    tau, speed, *ratios = figures
    cells = (_number(tau), _number(speed, 1), *map(_number, ratios))
    table.add_row(task.replace("[", "\\["), method, *cells, same)


def _same(row: Row) -> str:
    """`yes`, `2 near ties`, or how many replies of how many differ with no such excuse."""
    if row.differences is None or row.near_ties is None:
        return "–"
    if not row.differences:
        return "yes"
    unexplained = row.differences - row.near_ties
    if unexplained:
        return f"✗ {unexplained} of {row.replies}"
    return f"{row.near_ties} near tie{'' if row.near_ties == 1 else 's'}"


def _settings(settings: Mapping[str, Any], answered: int) -> str:
    """`12 replies by each · lean target · head small · nodes/depth/beam 8/3/4 · seed 0 · …`."""
    parts = [
        f"{answered} repl{'y' if answered == 1 else 'ies'} by each",
        f"{settings['target']} target",
        f"head {settings['head']}" if settings["head"] else "",
        _tree(settings),
        f"seed {settings['seed']}",
        f"at most {settings['max_new_tokens']} tokens",
    ]
    return " · ".join(part for part in parts if part)


def _tree(settings: Mapping[str, Any]) -> str:
    """Empty where nothing grows a tree."""
    if not settings["nodes"]:
        return ""
    size = "{nodes}/{depth}/{beam}".format(**settings)
    return f"trees sized by cost, at most {size}" if settings["sized"] else f"nodes/depth/beam {size}"


def _machine(machine: Mapping[str, Any]) -> str:
    """`smollm2-135m (b179c9523d0e) · bf16 · AMD EPYC, 2 cores, 1 thread · torch 2.13 · … · 2026-01-31`."""
    cores, threads = machine["cores"], machine["threads"]
    parts = [
        f"{machine['model']} ({machine['weights_sha256'][:12]})",
        machine["dtype"] if machine["quant"] == "none" else machine["quant"],
        machine["gpu"] or "",
        f"{machine['processor']}, {cores} core{'' if cores == 1 else 's'}, "
        f"{threads} thread{'' if threads == 1 else 's'}",
        f"torch {machine['torch']}",
        f"transformers {machine['transformers']}",
        machine["date"],
    ]
    return " · ".join(part for part in parts if part)


def _number(number: float | None, digits: int = 2) -> str:
    return "–" if number is None else f"{number:.{digits}f}"
