"""The bar on standard error of commands that ask many questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from rich.console import Console

HOUR = 3600.0  # seconds that the time left is estimated from: by Rich's 30 a slow model would have none

Show = Callable[[str, int], None]  # what is being done, and how many questions are done since the last call


@contextmanager
def question_bar(narrator: Console, total: int, unit: str = "questions", *, done: int = 0) -> Iterator[Show]:
    """A bar of `total` questions, `done` of them already; nothing where standard error is no terminal.

    It is painted when it is told something and never between: no thread of its own runs beside the decoding.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    shown = narrator.is_terminal
    with Progress(
        *columns,
        console=narrator,
        transient=True,
        auto_refresh=False,
        disable=not shown,
        speed_estimate_period=HOUR,
    ) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda doing, done: bar.update(task, description=doing, advance=done, refresh=True)
