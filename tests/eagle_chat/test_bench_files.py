"""`--csv` and `--markdown`: whole, readable by others, and found to be possible before hours of measuring."""

from __future__ import annotations

import csv
import json

import pytest

from eagle_chat import bench as bench_module
from eagle_chat.bench_files import as_csv, as_markdown
from eagle_chat.benchmark import Benchmark
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE
from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.evaluation_runs import report_of
from tests.eagle_chat.test_benchmark import MACHINE, SETTINGS, asked, at_speed

pytestmark = pytest.mark.usefixtures("one_thread")

METHODS = ("--methods", "none,eagle2", "--nodes", 8)
REPORT = {"settings": SETTINGS, "machine": MACHINE}


def measured(*tasks: str, temperatures: tuple[float, ...] = (0.0,)) -> Benchmark:
    """Three replies to each task, EAGLE-2 at 1.9, 2 and 2.4 times the speed of plain decoding."""
    benchmark = Benchmark(["none", "eagle2"])
    for task in tasks:
        for temperature in temperatures:
            for ratio in (2.0, 1.9, 2.4):
                replies = {"none": at_speed(10), "eagle2": at_speed(10 * ratio, 8)}
                benchmark.asked.append(asked(task, temperature, **replies))
    return benchmark


def test_csv_has_the_figures_of_json(bench, sky, tmp_path):
    """Catches a column that is missing, shifted or rounded, and an interval squeezed into one cell."""
    path = tmp_path / "figures.csv"
    ran = bench("--questions", sky, *METHODS, "--json", "--csv", path)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    results = json.loads(ran.out)["results"]
    for row, result in zip(rows, results, strict=True):
        for name in ("vs_plain", "vs_transformers"):
            low, high = result.pop(f"{name}_interval") or ("", "")
            assert (row.pop(f"{name}_low"), row.pop(f"{name}_high")) == (str(low), str(high))
        assert row == {key: "" if value is None else str(value) for key, value in result.items()}
    assert results[1]["vs_plain"] is not None


def test_csv_of_odd_names():
    """Catches a task whose name breaks the table."""
    lines = list(csv.reader(as_csv(measured('a,"b"')).splitlines()))
    assert [line[1] for line in lines] == ["task", 'a,"b"', 'a,"b"']
    assert {len(line) for line in lines} == {len(lines[0])}


def test_markdown_table():
    """Catches a table that no README would show, one with seconds of this machine, or with no machine."""
    text = as_markdown(measured("sky"), REPORT)
    lines = text.splitlines()
    assert lines[:4] == [
        "| method | τ | × plain | × transformers | same text |",
        "| --- | --: | --: | --: | --: |",
        "| `none` | 1.00 | 1.00 | – | yes |",
        "| `eagle2` | 2.50 | 2.00 (1.90–2.40) | – | yes |",
    ]
    assert text.count("| --- |") == 1
    assert "tok/s" not in text
    assert "bootstrap" in text
    assert "AMD EPYC, 2 cores" in lines[-1]


def test_markdown_by_task_and_temperature():
    """Catches tasks or temperatures that are mixed, and a name that breaks the table."""
    text = as_markdown(measured("sea", "a|b", temperatures=(0.0, 1.0)), REPORT)
    assert [line for line in text.splitlines() if line.startswith("**")] == [
        "**Temperature 0**",
        "**Temperature 1**",
    ]
    assert text.count("| × plain, τ | sea | a\\|b |") == 2
    assert text.count("| `eagle2` | 2.00, 2.50 | 2.00, 2.50 |") == 2


def test_markdown_of_nothing():
    """Catches a file that cannot be written after an early Ctrl+C."""
    assert as_markdown(Benchmark(["none"]), REPORT).startswith("No prompt was answered")


def test_files_beside_the_table(bench, sky, tmp_path):
    """Catches a file that takes the place of standard output, or keeps the end of a longer one."""
    table = tmp_path / "table.md"
    table.write_text("old\n" * 500)
    ran = bench("--questions", sky, *METHODS, "--markdown", table)
    assert (ran.code, ran.err) == (EXIT_DONE, "")
    assert "all tasks" in ran.out
    assert "| `eagle2` |" in table.read_text(encoding="utf-8")
    assert "old" not in table.read_text(encoding="utf-8")


def test_what_cannot_be_written(bench, sky, tmp_path, monkeypatch):
    """Catches a bad name that is found out at the end; a disk that fills up, with a traceback."""
    missing = tmp_path / "no" / "table.md"
    for option, path in (("--csv", tmp_path), ("--markdown", missing), ("--csv", missing)):
        assert_refused(bench("--questions", sky, option, path), str(path), f"another file as {option}")
    path = tmp_path / "table.md"
    assert_refused(bench("--questions", tmp_path / "none.jsonl", "--markdown", path), "none.jsonl")
    assert not path.exists()
    monkeypatch.setattr(bench_module, "as_markdown", lambda *about: path.mkdir() or "")
    ran = bench("--questions", sky, *METHODS, "--limit", 1, "--markdown", path)
    assert (ran.code, ran.err.count("\n")) == (EXIT_FAILURE, 1)
    assert f"{path} cannot be written" in ran.err
    assert "all tasks" in ran.out


def test_own_tasks(bench):
    """Catches tasks of ours that are not asked, or are called otherwise than they were asked for."""
    report = report_of(bench("--tasks", "qa,conversation", "--limit", 1, *METHODS, "--json"))
    replies = {row["task"]: row["replies"] for row in report["results"]}
    assert replies == {"qa": 1, "conversation": 3}
    assert report["settings"]["tasks"] == ["qa", "conversation"]
