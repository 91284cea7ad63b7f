"""What `eagle-chat train` shows of a run: its lines, its live picture, its plot and its log."""

from __future__ import annotations

import threading
from xml.etree import ElementTree

import pytest
from rich.console import Console

from eagle_chat.training import Began, Featured, Synthesised
from eagle_chat.training_log import TrainingLog, read_log
from eagle_chat.training_plot import write_plot
from eagle_chat.training_view import TrainingView
from engine.training import Measured, Trained, Validated

pytestmark = pytest.mark.usefixtures("one_thread")


def test_lines_without_a_terminal(train):
    """Catches a line for every step, which once came from a batch that goes beyond what was asked for."""
    ran = train()
    lines = [line for line in ran.err.splitlines() if line.startswith(("conversations:", "training:"))]
    assert 3 <= len(lines) <= 5, ran.err
    assert sum(line.startswith("conversations:") for line in lines) == 2


def test_live_picture():
    """Catches a bar, a depth or the sign that Ctrl+C was heard missing from 80 columns."""
    stop = threading.Event()
    console = Console(width=80, height=24, record=True, force_terminal=True)
    with TrainingView(console, stop) as view:
        view.show(Synthesised(1_000_000, 1_000_000, 1_000_000, 3000.0))
        view.show(Featured(3, 3))
        view.show(Trained(2_000_000, 4_000_000, 0.001, Measured((2.0, 2.5, 3.0), (0.5, 0.4, 0.3)), 9.0))
        view.show(Validated(2_000_000, Measured((2.1,) * 5, (0.45,) * 5), True, 9.0))
        with console.capture() as captured:
            console.print(view._picture())
        picture = captured.get()
        stop.set()
        with console.capture() as captured:
            console.print(view._picture())
    for said in ("2,000,000 of 4,000,000 pairs", "depth 5", "0.450", "2.500", "3 of 3 shards"):
        assert said in picture
    assert "stopping" not in picture
    assert "stopping" in captured.get()


def test_plot(finished, tmp_path):
    """Catches a picture that no viewer opens, or lacks a depth."""
    records = [
        {"event": "step", "pairs": n, "loss": [3.0, 3.5, 4.0], "agreement": [0.3, 0.2, 0.1]} for n in (10, 20)
    ]
    looks = [{"event": "validation", "pairs": 20, "loss": [3.0] * 5, "agreement": [0.3] * 5}]
    write_plot([*records, *looks], tmp_path / "plot.svg")
    count = {}
    for file in (tmp_path / "plot.svg", finished / "training.svg"):
        root = ElementTree.parse(file).getroot()
        count[file] = [len(root.findall(f".//{{*}}{tag}")) for tag in ("polyline", "circle")]
    assert count[tmp_path / "plot.svg"] == [2 * 3, 2 * 5 + 5]  # two panels; the legend has dots as well
    assert count[finished / "training.svg"][0] == 6
    write_plot([], tmp_path / "empty.svg")
    ElementTree.parse(tmp_path / "empty.svg")


def test_log_with_a_cut_line(tmp_path):
    """Catches a log that cannot be read after a crash, and a record glued to half of another."""
    file = tmp_path / "training.jsonl"
    file.write_bytes(b'{"event": "start", "pairs": 0}\n7\n{"event": "step", "pai\xc3')
    assert read_log(file) == [{"event": "start", "pairs": 0}]
    assert read_log(tmp_path / "none.jsonl") == []
    log = TrainingLog(file)
    log.record(Began(100, 200, 64, 0.5))
    assert [record["pairs"] for record in read_log(file)] == [0, 100]
