"""Random keys, clicks, pastes and sizes must neither raise nor hang. A failure names its seed and steps."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eagle_chat.tour.app import TourApp
from tests.eagle_chat.app_pilot import chat, run
from tests.eagle_chat.fake_session import SKY, FakeSession
from tests.eagle_chat.fuzz import Fuzz, Started
from tests.eagle_chat.recordings import replay_of
from tests.eagle_chat.replay_pilot import replaying

TEXT = f"# 天空\n\n{SKY}\n\n```python\nsky = '[blue]'\n```\n\n| a | b |\n|---|---|\n| 😀 | שלום |\n"
STEPS = 60  # of each application in the default run
SECONDS = 20.0  # of each application in the slow one


def chatting(folder: Path) -> Callable[[], Started]:
    """The chat and what it leads to: comparison, help, palette."""
    return lambda: chat(FakeSession(TEXT, delay=0.002))


def replays(folder: Path, count: int) -> Callable[[], Started]:
    """One recording, or two of them racing, at the true pace."""
    found = [replay_of(folder / f"{number}.jsonl", TEXT) for number in range(count)]

    @asynccontextmanager
    async def start() -> AsyncIterator:  # type: ignore[type-arg]
        async with replaying(*found, playing=True, clock=time.monotonic) as (app, _, pilot):
            yield app, pilot

    return start


def touring(folder: Path) -> Callable[[], Started]:
    """The tour and its list of chapters."""

    @asynccontextmanager
    async def start() -> AsyncIterator:  # type: ignore[type-arg]
        app = TourApp()
        app.animation_level = "none"
        async with app.run_test(size=(80, 24)) as pilot:
            yield app, pilot

    return start


APPLICATIONS = {
    "chat": chatting,
    "replay": lambda folder: replays(folder, 1),
    "race": lambda folder: replays(folder, 2),
    "tour": touring,
}


def fuzz(name: str, folder: Path, seed: int, enough: Callable[[int], bool]) -> None:
    """Drive one of the applications."""

    async def test() -> None:
        await Fuzz(seed).run(APPLICATIONS[name](folder), enough)

    run(test)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Exported pictures are left here."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_moment(name: str, here: Path) -> None:
    """Catches a key that fails at some size, or in some state that nobody thought of."""
    fuzz(name, here, seed=1, enough=lambda done: done >= STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_minute(name: str, here: Path) -> None:
    """The same with more patience."""
    end = time.monotonic() + SECONDS
    fuzz(name, here, seed=2, enough=lambda done: time.monotonic() > end)
