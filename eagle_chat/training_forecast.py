"""What a training run will take, said before it begins, and refused where the disk has no room for it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from eagle_chat.errors import EagleChatError
from eagle_chat.training_plan import Plan

if TYPE_CHECKING:
    from engine.training import Sizes, Speeds

MEGABYTE = 1_000_000


def forecast(plan: Plan, speeds: Speeds, sizes: Sizes) -> Table:
    """What the run will take."""
    writing = plan.tokens / speeds.written
    training = plan.passes * plan.tokens / speeds.trained
    prepared = "their features" if plan.corpus else "conversations"
    before = f"{_duration(writing)} for {prepared}, " if writing else ""
    table = Table(box=None, show_header=False, pad_edge=False)
    rows = [
        ("head", f"{plan.method} for {plan.model}"),
        ("conversations", f"{plan.tokens:,} tokens from {plan.data or plan.corpus or 'the target itself'}"),
        ("training", f"{plan.passes:g} passes, {plan.guesses}"),
        ("time", f"about {before}{_duration(training)} for training"),
        ("disk", f"about {_megabytes(_room(plan, sizes))}, most of it to be deleted when the head is made"),
        ("memory", f"about {_megabytes(sizes.memory)} at most"),
    ]
    for name, value in rows:
        table.add_row(name, value)
    return table


def _room(plan: Plan, sizes: Sizes) -> int:
    """Bytes of disk, about."""
    return plan.tokens * sizes.token + sizes.kept


def nearest(path: Path) -> Path:
    """The path itself, or what there is of it."""
    return next(part for part in (path, *path.absolute().parents) if part.exists())


def check_room(folder: Path, plan: Plan, sizes: Sizes) -> None:
    """Raises EagleChatError where the run would fill the disk."""
    free = shutil.disk_usage(nearest(folder)).free
    if free < _room(plan, sizes):
        raise EagleChatError(
            f"the disk of {folder} has {_megabytes(free)} left, too few for this run: make room, or take "
            "fewer --tokens"
        )


def _megabytes(number: int) -> str:
    return f"{max(1, number / MEGABYTE):,.0f} MB"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{max(1, seconds / 60):.0f} min"
