"""Makes the pictures of this folder: the app replays recorded rounds and is photographed at set sizes.

python screenshots/make.py            draw every picture from traces/
python screenshots/make.py --record   record traces/ anew with the default model first
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import resvg_py

from eagle_chat.app import EagleChatApp
from eagle_chat.events import Event, Finished, Prefill, Started
from eagle_chat.frame_budget import FrameBudget
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
FONT = "DejaVu Sans Mono"


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


def record() -> None:
    """Run the default model. On a machine that does nothing else: the figures are in the pictures."""
    TRACES.mkdir(exist_ok=True)
    for name, (prompt, method) in RECORDINGS.items():
        command = [sys.executable, "-m", "eagle_chat", "run", prompt, "--seed", "7", "--method", method]
        command += ["--max-new-tokens", "160", "--trace", str(TRACES / f"{name}.jsonl")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


async def photograph(name: str, size: tuple[int, int], theme: str, *, compare: bool = False) -> None:
    """One picture, as SVG and PNG."""
    traces = {name: read_trace(TRACES / f"{name}.jsonl") for name in RECORDINGS}
    session = (
        RecordedSession(traces["drafted"], traces["plain"]) if compare else RecordedSession(traces["chat"])
    )
    app = EagleChatApp(lambda progress: session, theme=theme, title=session.info.model, budget=NoShare())
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        await until(lambda: app.feed.info is not None)
        for character in session.drafted.header["prompt"]:
            await pilot.press("space" if character == " " else character)
        await pilot.press("enter")
        await until(lambda: not app.busy if compare else bool(app.feed.reply and app.feed.reply.text))
        if compare:
            await pilot.press("ctrl+r")
            await until(lambda: not app.busy)
        await asyncio.sleep(2.5)  # the screen paints at a few frames a second
        await pilot.pause()
        svg = app.export_screenshot(title="eagle-chat")
        app.worker.stop()
        app.worker.quit()
    svg = re.sub(r"terminal-\d+", "terminal-0", re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S))
    svg = svg.replace("Fira Code", FONT)
    (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")
    (HERE / f"{name}.png").write_bytes(bytes(resvg_py.svg_to_bytes(svg_string=svg)))
    print(f"{name}: {size[0]}x{size[1]}")


async def until(true: Callable[[], object], seconds: float = 20) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="record traces/ anew first")
    if parser.parse_args().record:
        record()
    asyncio.run(photograph("chat-120x40", (120, 40), "eagle-dark"))
    asyncio.run(photograph("chat-120x40-light", (120, 40), "eagle-light"))
    asyncio.run(photograph("chat-80x24", (80, 24), "eagle-dark"))
    asyncio.run(photograph("chat-200x60", (200, 60), "eagle-dark"))
    asyncio.run(photograph("compare-120x40", (120, 40), "eagle-dark", compare=True))


if __name__ == "__main__":
    main()
