"""The bar of long commands: only where somebody looks, and with a time left that is about right."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from eagle_chat.progress_bar import question_bar


def bar_after(seconds_each: float, *, done: int = 0, asked: int = 3, terminal: bool = True) -> str:
    """What stands there after some of ten questions, by a clock that is put forward."""
    now, shown = [0.0], io.StringIO()
    narrator = Console(file=shown, force_terminal=terminal, width=100, get_time=lambda: now[0])
    with question_bar(narrator, 10, "replies", done=done) as show:
        for _ in range(asked):
            show("math · eagle2", 0)
            now[0] += seconds_each
            show("math · eagle2", 1)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())


def test_nothing_without_a_terminal():
    """Catches control characters in a log."""
    assert bar_after(1, terminal=False) == ""


@pytest.mark.parametrize(("seconds", "left"), [(1.0, "0:00:07"), (60.0, "0:07:00")])
def test_time_left(seconds, left):
    """Catches a time left that is unknown as soon as one reply takes longer than half a minute."""
    shown = bar_after(seconds)
    assert "math · eagle2" in shown
    assert "3/10 replies" in shown
    assert left in shown


def test_what_was_done_before_took_no_time():
    """Catches a run that goes on and believes to be done in a second, as it found so much finished."""
    shown = bar_after(60.0, done=5)
    assert "8/10 replies" in shown
    assert "0:02:00" in shown
