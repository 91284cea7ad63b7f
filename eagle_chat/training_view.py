"""A training run in the terminal: a bar for each stage, and under it loss and agreement by depth, live."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from eagle_chat.training import Event, Featured, Synthesised
from engine.training import Measured, Trained, Validated

LINE_SECONDS = 30.0  # between two lines where there is no terminal
SMOOTHING = 0.05  # weight of the newest step in the means shown
MEANING = "agreement: share of tokens where head and target have the same best guess"


class TrainingView:
    """Shows events as they come, on `console`, and that `stop` was heard."""

    def __init__(self, console: Console, stop: threading.Event) -> None:
        self.console, self.stop = console, stop
        self._bars = Progress(
            TextColumn("{task.description:<14}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} {task.fields[unit]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._loss: list[float] = []
        self._agreement: list[float] = []
        self._held_out: Measured | None = None
        self._said = 0.0
        self._live = Live(get_renderable=self._picture, console=console, refresh_per_second=4)

    def __enter__(self) -> TrainingView:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def show(self, event: Event) -> None:
        """Bring the picture up to date; without a terminal, say something now and then."""
        if isinstance(event, Synthesised):
            self._advance("conversations", event.tokens, event.of, "tokens")
        elif isinstance(event, Featured):
            self._advance("features", event.shards, event.of, "shards")
        elif isinstance(event, Trained):
            self._loss = _smoothed(self._loss, event.measured.loss)
            self._agreement = _smoothed(self._agreement, event.measured.agreement)
            self._advance("training", event.pairs, event.of, "pairs")
        elif isinstance(event, Validated):
            self._held_out = event.measured

    def _advance(self, stage: str, done: int, of: int, unit: str) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=of, completed=done, unit=unit)
        self._bars.update(self._tasks[stage], completed=min(done, of), total=of)
        if not self.console.is_terminal and (done >= of or time.monotonic() - self._said > LINE_SECONDS):
            self._said = time.monotonic()
            agreement = f", agreement {_shares(self._agreement)}" if stage == "training" else ""
            self.console.print(f"{stage}: {done:,} of {of:,} {unit}{agreement}", soft_wrap=True)

    def _picture(self) -> RenderableType:
        parts: list[RenderableType] = [self._bars]
        if self._loss:
            parts += [self._table(), Text(MEANING, style="dim")]
        if self.stop.is_set():
            parts.append(Text("stopping; Ctrl+C again stops at once, up to a minute's work is lost then"))
        return Group(*parts)

    def _table(self) -> Table:
        """Loss and agreement by depth."""
        held_out = self._held_out
        table = Table(box=None, pad_edge=False)
        table.add_column("")
        for depth in range(len(held_out.loss if held_out else self._loss)):
            table.add_column(f"depth {depth + 1}", justify="right")
        rows = [("loss", self._loss), ("agreement", self._agreement)]
        if held_out:
            rows.insert(1, ("  held out", [*held_out.loss]))
            rows.append(("  held out", [*held_out.agreement]))
        for name, values in rows:
            table.add_row(name, *(f"{value:.3f}" for value in values))
        return table


def _smoothed(before: list[float], now: tuple[float, ...]) -> list[float]:
    if not before:
        return list(now)
    return [old + SMOOTHING * (new - old) for old, new in zip(before, now, strict=True)]


def _shares(values: list[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)
