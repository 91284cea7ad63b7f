"""What `eagle-chat bench` shows without --json: a table for each temperature, and the settings, as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from eagle_chat.benchmark import Benchmark
from eagle_chat.bootstrap import Interval
from eagle_chat.evaluation_tables import WIDE


def tables(benchmark: Benchmark, settings: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    """The text for standard output; `settings` and `machine` are the keys of the JSON object."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    with console.capture() as capture:
        for temperature in benchmark.temperatures:
            console.print(_by_task(benchmark, temperature))
            console.print(_overall(benchmark, temperature))
        if not benchmark.asked:
            console.print("no prompt was answered by every method")
        console.print(settings_text(settings, len(benchmark.asked)), markup=False, soft_wrap=True)
        console.print(machine_text(machine), markup=False, soft_wrap=True)
    return capture.get()


def _by_task(benchmark: Benchmark, temperature: float) -> Table:
    """A section for each task."""
    table = _table("task", "method")
    table.title = f"temperature {temperature:g}"
    for column in ("τ", "tok/s", "×\nplain", "× trans-\nformers", "same\ntext"):
        table.add_column(column, justify="right")
    rows = [row for row in benchmark.rows() if row.temperature == temperature]
    for task, group in groupby(rows, key=lambda row: row.task):
        for index, row in enumerate(group):
            ratios = number(row.vs_plain), number(row.vs_transformers)
            speed = number(row.tokens_per_second, 1)
            name = task.replace("[", "\\[") if index == 0 else ""
            table.add_row(name, row.method, number(row.tau), speed, *ratios, same_text(asdict(row)))
        table.add_section()
    return table


def _overall(benchmark: Benchmark, temperature: float) -> Table:
    """All tasks: the mean of their τ; medians over all replies, and intervals that hold these with 95 %."""
    table = _table("all tasks")
    for column in ("τ", "tok/s", "×\nplain", "95 %", "× trans-\nformers", "95 %", "same\ntext"):
        table.add_column(column, justify="right")
    for method, whole in benchmark.summary(temperature).items():
        ratios = (
            cell
            for key in ("median_vs_plain", "median_vs_transformers")
            for cell in (number(whole[key]), interval_text(whole[f"{key}_interval"]))
        )
        speed = number(whole["median_tokens_per_second"], 1)
        table.add_row(method, number(whole["tau"]), speed, *ratios, same_text(whole))
    return table


def _table(*columns: str) -> Table:
    """So narrow that the longest names fit into 80 columns."""
    return Table(*columns, box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)


def same_text(figures: Mapping[str, Any]) -> str:
    """`yes`, `2 near ties`, or how many replies of how many differ with no such excuse (?: perhaps one)."""
    differences, near_ties = figures["differences"], figures["near_ties"]
    if differences is None:
        return "–"
    if not differences:
        return "yes"
    if near_ties is None:
        return f"? {differences} of {figures['replies']}"
    if unexplained := differences - near_ties:
        return f"✗ {unexplained} of {figures['replies']}"
    return f"{near_ties} near tie{'' if near_ties == 1 else 's'}"


def interval_text(interval: Interval | None, form: str = "{}–{}") -> str:
    """Empty where there is none."""
    return form.format(*map(number, interval)) if interval else ""


def settings_text(settings: Mapping[str, Any], answered: int) -> str:
    """`12 replies by each · lean target · head small · nodes/depth/beam 8/3/4 · seed 0 · …`."""
    parts = [
        f"{answered} repl{'y' if answered == 1 else 'ies'} by each",
        f"{settings['target']} target",
        _heads(settings["heads"]),
        _tree(settings),
        f"seed {settings['seed']}",
        f"at most {settings['max_new_tokens']} tokens",
    ]
    return " · ".join(part for part in parts if part)


def _heads(heads: Mapping[str, Any]) -> str:
    """Empty where nothing drafts with one."""
    names = list(dict.fromkeys(head["name"] for head in heads.values()))
    return f"head{'' if len(names) == 1 else 's'} {', '.join(names)}" if names else ""


def _tree(settings: Mapping[str, Any]) -> str:
    """Empty where nothing grows a tree; of several heads, with the kind of the one whose trees they are."""
    if not settings["nodes"]:
        return ""
    size = "{nodes}/{depth}/{beam}".format(**settings)
    text = f"trees sized by cost, at most {size}" if settings["sized"] else f"nodes/depth/beam {size}"
    heads = settings["heads"]
    own = next((kind for kind, head in heads.items() if head["name"] == settings["head"]), "")
    return f"{own}: {text}" if own and len(heads) > 1 else text


def machine_text(machine: Mapping[str, Any]) -> str:
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


def number(value: float | None, digits: int = 2) -> str:
    """A dash for what is not known."""
    return "–" if value is None else f"{value:.{digits}f}"
