"""`eagle-chat replay`: recorded traces on the screen, or as plain text where there is none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, UsageError
from eagle_chat.look import Look
from eagle_chat.recorded import load_recording
from eagle_chat.replaying import AS_RECORDED, SPEEDS, Player, Replay
from eagle_chat.streams import check_output, write
from eagle_chat.terminal import has_screen
from eagle_chat.visible import visible

MOST_FILES = 2


@dataclass(frozen=True)
class Job:
    """What `replay` was asked for."""

    files: Sequence[Path]
    speed: float = AS_RECORDED
    paused: bool = False
    pause_on_markers: bool = False
    theme: str | None = None
    look: Look = field(default_factory=Look)


def replay(job: Job) -> int:
    """Replay one trace, or two side by side; the exit code."""
    if len(job.files) > MOST_FILES:
        raise UsageError(f"{len(job.files)} traces cannot be replayed at once: name one or two")
    if job.speed not in SPEEDS:
        known = ", ".join(f"{speed:g}" for speed in SPEEDS)
        raise UsageError(f"there is no speed {job.speed:g}: --speed is one of {known}")
    check_output()
    replays = [Replay(load_recording(path)) for path in job.files]
    names = [path.name for path in job.files]
    if not has_screen():
        return _print(replays, names)
    from eagle_chat.replay_app import run_replay_app

    player = Player(replays, speed=job.speed, playing=not job.paused, pause_on_markers=job.pause_on_markers)
    return run_replay_app(player, names, job.theme, job.look)


def _print(replays: Sequence[Replay], names: Sequence[str]) -> int:
    """The texts to standard output, what there is to say about them to standard error."""
    from eagle_chat.racing import Race

    try:
        for each in replays:
            write(f"{visible(each.frame(each.rounds).text)}\n")
            print(visible(each.last_line()), file=sys.stderr)
    except BrokenPipeError:  # whoever read us has enough
        return EXIT_FAILURE
    if len(replays) == MOST_FILES:
        print(visible(Race(replays, names).verdict()), file=sys.stderr)
    return EXIT_DONE
