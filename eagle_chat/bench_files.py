"""What `eagle-chat bench` writes beside standard output: figures as CSV, and a table for a README."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from eagle_chat.benchmark import Benchmark, Row
from eagle_chat.benchmark_tables import interval_text, machine_text, number, same_text, settings_text
from eagle_chat.errors import EagleChatError, UsageError

Report = Mapping[str, Any]  # the JSON object
INTERVALS = ("vs_plain_interval", "vs_transformers_interval")


def check_writable(path: Path | None, option: str) -> None:
    """Found out before hours of measuring. Raises UsageError."""
    if path is None:
        return
    was_there = path.exists()
    try:
        path.open("ab").close()
        if not was_there:
            path.unlink()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}): give another file as {option}"
        ) from None


def write_file(path: Path | None, content: Callable[[], str]) -> None:
    """In place of what was there; nothing without a path."""
    if path is None:
        return
    try:
        path.write_text(content(), encoding="utf-8", newline="")
    except OSError as error:
        raise EagleChatError(f"{path} cannot be written ({error.strerror}): make room") from None


def as_csv(benchmark: Benchmark) -> str:
    """A line for each method on each task at each temperature; the ends of an interval have a column each."""
    names = [name for field in fields(Row) for name in _columns(field.name)]
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(names)
    for row in benchmark.rows():
        values = [getattr(row, field.name) for field in fields(Row)]
        writer.writerow(
            cell
            for field, value in zip(fields(Row), values, strict=True)
            for cell in ((value or (None, None)) if field.name in INTERVALS else (value,))
        )
    return lines.getvalue()


def _columns(name: str) -> tuple[str, ...]:
    if name not in INTERVALS:
        return (name,)
    stem = name.removesuffix("_interval")
    return f"{stem}_low", f"{stem}_high"


def as_markdown(benchmark: Benchmark, report: Report) -> str:
    """Tables of ratios, what they mean and the machine: seconds of one machine are of no use on another."""
    parts = []
    for temperature in benchmark.temperatures:
        if len(benchmark.temperatures) > 1:
            parts.append(f"**Temperature {temperature:g}**")
        parts.append(_overall(benchmark, temperature))
        if len({one.task for one in benchmark.asked}) > 1:
            parts.append(_by_task(benchmark, temperature))
    if not benchmark.asked:
        parts.append("No prompt was answered by every method.")
    parts.append(
        "τ: tokens per forward pass of the target. ×: median of the ratios of two replies to one prompt made "
        "right after one another, with 95 % interval (bootstrap)."
    )
    parts.append(settings_text(report["settings"], len(benchmark.asked)))
    parts.append(machine_text(report["machine"]))
    return "\n\n".join(parts) + "\n"


def _overall(benchmark: Benchmark, temperature: float) -> str:
    lines = []
    for method, whole in benchmark.summary(temperature).items():
        ratios = (
            f"{number(whole[key])}{interval_text(whole[f'{key}_interval'], ' ({}–{})')}"
            for key in ("median_vs_plain", "median_vs_transformers")
        )
        lines.append([f"`{method}`", number(whole["tau"]), *ratios, same_text(whole)])
    return _table(["method", "τ", "× plain", "× transformers", "same text"], lines)


def _by_task(benchmark: Benchmark, temperature: float) -> str:
    """The paper's table: each cell has a speed-up and τ."""
    rows = [row for row in benchmark.rows() if row.temperature == temperature]
    tasks = list(dict.fromkeys(row.task for row in rows))
    cells = {(row.method, row.task): f"{number(row.vs_plain)}, {number(row.tau)}" for row in rows}
    lines = [[f"`{method}`", *(cells[method, task] for task in tasks)] for method in benchmark.methods]
    return _table(["× plain, τ", *(task.replace("|", "\\|") for task in tasks)], lines)


def _table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))
