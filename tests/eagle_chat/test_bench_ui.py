"""`bench --ui`: its figures, and the real app in a pseudo terminal with a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_chat.bench_ui import HEADLESS, HIDDEN, MODES, SHOWN, Sample, summary, table
from eagle_chat.errors import EXIT_DONE, EXIT_USAGE
from tests.eagle_chat.conftest import Ran, assert_refused

Command = Callable[..., Ran]


def samples() -> list[Sample]:
    """Three pairs on a machine that gets slower and slower."""
    found = []
    for pair, speed in enumerate((100.0, 50.0, 10.0)):
        found += [
            Sample(pair, HEADLESS, speed, [1, 2]),
            Sample(pair, HIDDEN, speed * 0.98, [1, 2], 0.01, 0.008),
            Sample(pair, SHOWN, speed * (0.9, 0.96, 0.97)[pair], [1, 2], (0.02, 0.03, 0.04)[pair], 0.02),
        ]
    return found


def test_ratios_are_those_of_neighbours() -> None:
    """Catches a ratio of medians, which a machine that slows down makes meaningless."""
    report = summary(samples())
    assert (report["pairs"], report["same_text"]) == (3, True)
    assert report["modes"][SHOWN]["ratio"] == 0.96
    assert report["modes"][SHOWN]["ui_cpu_share"] == 0.03
    assert report["modes"][HEADLESS]["ratio"] == 1
    assert report["modes"][HEADLESS]["ui_cpu_share"] is None


def test_what_was_not_measured() -> None:
    """Catches a traceback after a run that was interrupted early, and differing texts that are not told."""
    assert "–" in table(summary([]) | {"size": (80, 24)})
    cut = [*samples()[:3], Sample(1, SHOWN, 9.0, [1, 3], 0.1, None)]
    report = summary(cut)
    assert len(report["modes"][SHOWN]["ratios"]) == 1
    assert "the texts differ" in table(report | {"size": (80, 24)})


@pytest.mark.slow
def test_with_a_tiny_model(command: Command, chat_model: Path, chat_head: Path) -> None:
    """Catches an app that does not start, answer or end in the terminal, and a share that is not measured."""
    options = ("--model", chat_model, "--head", chat_head, "--dtype", "fp32", "--max-new-tokens", 12)
    ran = command("bench", "--ui", "--pairs", 1, "--json", *options)
    assert ran.code == EXIT_DONE, ran.err
    report = json.loads(ran.out)
    assert report["same_text"]
    assert report["info"]["method"] == "eagle2"
    for mode in MODES:
        assert report["modes"][mode]["tokens_per_second"] > 0
    assert 0 < report["modes"][SHOWN]["ui_cpu_share"] < 1


def test_what_is_refused(command: Command) -> None:
    """Catches options that are silently ignored."""
    for option, value in (("--methods", "none"), ("--tasks", "all"), ("--csv", "x.csv")):
        assert_refused(command("bench", "--ui", option, value), "--ui", option)


@pytest.mark.slow
def test_what_cannot_be_loaded(command: Command, tmp_path: Path) -> None:
    """Catches a sentence that is lost between the two processes, or a wait for ever."""
    ran = command("bench", "--ui", "--model", tmp_path / "nowhere")
    assert (ran.code, ran.out) == (EXIT_USAGE, "")
    assert ran.err.count("\n") == 1
    assert "nowhere" in ran.err
