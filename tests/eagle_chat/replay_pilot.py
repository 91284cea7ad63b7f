"""Drives the replay without a terminal."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from eagle_chat.recorded import load_recording
from eagle_chat.replay_app import ReplayApp
from eagle_chat.replaying import Player, Replay
from tests.eagle_chat.app_pilot import picture, wait_until

TRACES = Path(__file__).parents[2] / "screenshots" / "traces"


class Clock:
    """Goes on when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def replaying(
    *replays: Replay, size: tuple[int, int] = (100, 40), playing: bool = False, clock: Clock | None = None
) -> AsyncIterator[tuple[ReplayApp, Player, Pilot[None]]]:
    """The app with recordings, paused at the start."""
    player = Player(replays, playing=playing)
    app = ReplayApp(player, ["one.jsonl", "two.jsonl"][: len(replays)], clock=clock or Clock())
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        await wait_until(lambda: "0/" in picture(app))
        await pilot.pause()
        yield app, player, pilot


def drafted() -> Replay:
    return Replay(load_recording(TRACES / "drafted.jsonl"))


def plain() -> Replay:
    return Replay(load_recording(TRACES / "plain.jsonl"))


def text_of(app: ReplayApp) -> str:
    """The whole text of the reply on screen, without the line of numbers."""
    return str(app.screen.query_one(".recorded .piece").content)  # type: ignore[attr-defined]
