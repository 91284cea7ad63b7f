"""Makes the pictures of this folder: the app replays recorded rounds and is photographed at set sizes.

python screenshots/make.py                draw every picture from traces/
python screenshots/make.py NAME …         only these
python screenshots/make.py --record       record traces/ anew with the default model first

A picture is a line of `PICTURES`: its scene, its size and its theme.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.app import App

from eagle_chat import engine_feed
from eagle_chat.app import EagleChatApp
from eagle_chat.choices import Choices
from eagle_chat.conversation import Turn
from eagle_chat.events import Event, Finished, Prefill, Started
from eagle_chat.frame_budget import FrameBudget
from eagle_chat.pictures import most_telling, png, screen_svg
from eagle_chat.replay_app import ReplayApp
from eagle_chat.replaying import Player, Replay
from eagle_chat.tour.app import TourApp
from eagle_chat.trace import Trace, read_trace

HERE = Path(__file__).parent
TRACES = HERE / "traces"
CODE = "Write a Python function that reverses a list, and explain it."
PLANETS = "List the planets of the solar system with one fact each."
RECORDINGS = {
    "chat": (CODE, "eagle2"),
    "drafted": (PLANETS, "eagle2"),
    "plain": (PLANETS, "none"),
}  # prompt, method
EARLIEST = 20  # round at which a picture of a reply under way may be taken
TELLING = 3  # drafts accepted in it

Size = tuple[int, int]
Scene = Callable[[Size, str], AbstractAsyncContextManager[App[None]]]


class NoShare(FrameBudget):
    """A recording is not slowed down by the screen, so there is no share to show."""

    def painted(self, *, text: bool, picture: bool) -> None:
        """Forget the share."""
        super().painted(text=text, picture=picture)
        self.share = None


class RecordedSession:
    """Answers with what was recorded; `plain` is what the last prompt gives again without drafting."""

    def __init__(self, drafted: Trace, plain: Trace | None = None) -> None:
        self.drafted = drafted
        self.plain = plain
        self.info = drafted.info
        self.choices = Choices(method=drafted.info.method)
        self.methods = ("none", drafted.info.method)

    def change(self, choices: Choices) -> None:
        """A recording stays as it is."""

    def go_on_after(self, turns: Sequence[Turn]) -> None:
        """As `change`."""

    def restore(self, messages: Sequence[dict[str, str]]) -> None:
        """As `change`."""

    def close(self) -> None:
        """Nothing is held."""

    def ask(self, prompt: str, *, seed: int | None, stop: threading.Event) -> Iterator[Event]:
        """The recording."""
        return self._replay(self.drafted, stop, again=False)

    def again(self, *, method: str, stop: threading.Event) -> Iterator[Event]:
        """The recording of plain decoding."""
        assert self.plain is not None
        return self._replay(self.plain, stop, again=True)

    def regenerate(self, *, seed: int | None, stop: threading.Event) -> Iterator[Event]:
        """The recording once more."""
        return self._replay(self.drafted, stop, again=False)

    def new_chat(self) -> None:
        """Nothing to forget."""

    def _replay(self, trace: Trace, stop: threading.Event, again: bool) -> Iterator[Event]:
        assert trace.summary is not None
        yield Started(trace.header["prompt"], trace.header["method"], trace.header["seed"], again)
        yield Prefill(trace.prompt_tokens, trace.prompt_tokens)
        for done in trace.rounds:
            yield done
            if self.plain is None and done.record.index >= EARLIEST and done.record.accepted >= TELLING:
                stop.wait()  # a telling round: the reply stands still, until it is stopped
                break
        yield Finished(trace.summary["text"], trace.summary, again)


def no_memory() -> None:
    """Of a process that decodes nothing there is no memory to show."""


def trace(name: str) -> Trace:
    """One of the recordings."""
    return read_trace(TRACES / f"{name}.jsonl")


@asynccontextmanager
async def asked(session: RecordedSession, size: Size, theme: str) -> AsyncIterator[tuple[EagleChatApp, Any]]:
    """The chat with its prompt sent."""
    engine_feed.resident_bytes = no_memory
    app = EagleChatApp(lambda progress: session, theme=theme, title=session.info.model, budget=NoShare())
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        await until(lambda: app.feed.info is not None)
        for character in session.drafted.header["prompt"]:
            await pilot.press("space" if character == " " else character)
        await pilot.press("enter")
        yield app, pilot
        app.worker.stop()
        app.worker.quit()


@asynccontextmanager
async def chat(size: Size, theme: str, *keys: str) -> AsyncIterator[App[None]]:
    """A reply under way, then some keys."""
    async with asked(RecordedSession(trace("chat")), size, theme) as (app, pilot):
        await until(lambda: bool(app.feed.reply and app.feed.reply.text))
        await settled(pilot)
        for key in keys:
            await pilot.press(key)
        yield app


def inspector(size: Size, theme: str) -> AbstractAsyncContextManager[App[None]]:
    """A node that was drafted and not accepted, explained."""
    return chat(size, theme, "tab", "down", "down")


@asynccontextmanager
async def compare(size: Size, theme: str) -> AsyncIterator[App[None]]:
    """The same prompt without drafting, at its end."""
    async with asked(RecordedSession(trace("drafted"), trace("plain")), size, theme) as (app, pilot):
        await until(lambda: not app.busy)
        await pilot.press("ctrl+r")
        await until(lambda: not app.busy)
        await settled(pilot)
        yield app


@asynccontextmanager
async def replayed(names: tuple[str, ...], size: Size, theme: str) -> AsyncIterator[App[None]]:
    """A trace at its most telling round, or two at the same moment."""
    player = Player([Replay(trace(name)) for name in names], playing=False)
    player.go_to_round(most_telling(player.replays[0].trace.rounds))
    app = ReplayApp(player, [f"{name}.jsonl" for name in names], theme=theme)
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield app


def replay(size: Size, theme: str) -> AbstractAsyncContextManager[App[None]]:
    """One trace."""
    return replayed(("chat",), size, theme)


def race(size: Size, theme: str) -> AbstractAsyncContextManager[App[None]]:
    """Two traces on one clock."""
    return replayed(("drafted", "plain"), size, theme)


@asynccontextmanager
async def tour(size: Size, theme: str) -> AsyncIterator[App[None]]:
    """The chapter about the tree."""
    app = TourApp(3, theme=theme)
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield app


@dataclass(frozen=True)
class Picture:
    """What is photographed; `name` is that of its files."""

    name: str
    scene: Scene
    size: Size
    theme: str = "eagle-dark"


PICTURES = (
    Picture("chat-120x40", chat, (120, 40)),
    Picture("chat-120x40-light", chat, (120, 40), "eagle-light"),
    Picture("chat-80x24", chat, (80, 24)),
    Picture("chat-200x60", chat, (200, 60)),
    Picture("compare-120x40", compare, (120, 40)),
    Picture("inspector-120x40", inspector, (120, 40)),
    Picture("replay-120x40", replay, (120, 40)),
    Picture("race-120x40", race, (120, 40)),
    Picture("tour-120x40", tour, (120, 40)),
)


async def take(picture: Picture) -> None:
    """The picture as SVG and PNG."""
    async with picture.scene(picture.size, picture.theme) as app:
        svg = screen_svg(app.export_screenshot(title="eagle-chat"))
    (HERE / f"{picture.name}.svg").write_text(svg, encoding="utf-8")
    (HERE / f"{picture.name}.png").write_bytes(png(svg))
    print(picture.name)


async def settled(pilot: Any) -> None:
    """The screen paints at a few frames a second."""
    await asyncio.sleep(2.5)
    await pilot.pause()


async def until(true: Callable[[], object], seconds: float = 20) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)


def record() -> None:
    """Run the default model. On a machine that does nothing else: the figures are in the pictures."""
    TRACES.mkdir(exist_ok=True)
    for name, (prompt, method) in RECORDINGS.items():
        command = [sys.executable, "-m", "eagle_chat", "run", prompt, "--seed", "7", "--method", method]
        command += ["--max-new-tokens", "160", "--trace", str(TRACES / f"{name}.jsonl")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these pictures")
    parser.add_argument("--record", action="store_true", help="record traces/ anew first")
    arguments = parser.parse_args()
    known = [picture.name for picture in PICTURES]
    if strangers := set(arguments.names) - set(known):
        parser.error(f"no picture called {', '.join(sorted(strangers))}: choose from {', '.join(known)}")
    if arguments.record:
        record()
    for picture in PICTURES:
        if not arguments.names or picture.name in arguments.names:
            asyncio.run(take(picture))


if __name__ == "__main__":
    main()
