"""Random keys, mouse, pastes and sizes for an application, always the same ones for a seed.

They take the way of a terminal's events, several at once as from somebody fast.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager

from textual import events
from textual.app import App
from textual.geometry import Size
from textual.message import Message
from textual.pilot import Pilot

SMALLEST, LARGEST = (20, 5), (220, 60)
LONGEST = 20.0  # seconds to answer; more is a hang
BURST = 12  # steps at most before it has to
REMEMBERED = 40  # steps told when something goes wrong
MOVES = "enter enter enter escape escape escape tab shift+tab up down left right home end pageup pagedown"
EDITS = "space backspace delete ctrl+j ctrl+u ctrl+k ctrl+z 1 2 3 a e ä slash"
COMMANDS = "ctrl+r ctrl+n ctrl+p f1 f5 question_mark t i j k h l n N p g s S x y comma full_stop"
OTHERS = "left_square_bracket right_square_bracket plus minus"
KEYS = f"{MOVES} {EDITS} {COMMANDS} {OTHERS}".split(" ")
CHARACTERS = {
    "space": " ", "question_mark": "?", "comma": ",", "full_stop": ".", "left_square_bracket": "[",
    "right_square_bracket": "]", "plus": "+", "minus": "-", "slash": "/", "enter": "\r", "tab": "\t",
}  # fmt: skip
TEXTS = ("Why?", "[bold]no[/bold]", "two\nlines", "中文 😀 שלום", "\x1b[31m", "12", "1.5s", "`" * 3)
MOUSE = (
    (events.MouseMove,),
    (events.MouseDown, events.MouseUp),
    (events.MouseScrollDown,),
    (events.MouseScrollUp,),
)

Started = AbstractAsyncContextManager[tuple[App[None], Pilot[None]]]


class Fuzz:
    """Drives one application after another: a step may well quit it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self._steps: deque[str] = deque(maxlen=REMEMBERED)

    async def run(self, start: Callable[[], Started], enough: Callable[[int], bool]) -> None:
        """Step until `enough`, told the steps done, says so. Errors are raised with the steps before them."""
        done = 0
        try:
            while not enough(done):
                self._steps.append("start")
                async with start() as (app, _):
                    while not enough(done) and app.is_running and app._exception is None:
                        done += await self._burst(app)
        except BaseException as error:
            error.add_note(f"seed {self._seed}: {' · '.join(self._steps)}")
            raise

    async def _burst(self, app: App[None]) -> int:
        """Some steps; then the application must answer."""
        steps = self._random.randint(1, BURST)
        for _ in range(steps):
            (make,) = self._random.choices([self._key, self._mouse, self._paste, self._size], [70, 12, 6, 6])
            for event in make(app):
                assert app._driver is not None
                app._driver.process_message(event)
            await asyncio.sleep(0.001 * self._random.randrange(4))
        await asyncio.sleep(0.005)  # what was sent is with the application now
        settled = asyncio.Event()
        if app.call_later(settled.set):  # False: it has ended
            async with asyncio.timeout(LONGEST):
                while not settled.is_set() and app._exception is None:
                    await asyncio.sleep(0.005)
        return steps

    def _key(self, app: App[None]) -> Iterator[Message]:
        key = self._random.choice(KEYS)
        self._steps.append(key)
        yield events.Key(key, CHARACTERS.get(key, key if len(key) == 1 else None))

    def _mouse(self, app: App[None]) -> Iterator[Message]:
        x, y = self._random.randrange(app.size.width), self._random.randrange(app.size.height)
        kinds = self._random.choice(MOUSE)
        self._steps.append(f"{kinds[0].__name__} {x},{y}")
        button = int(len(kinds) > 1)
        for kind in kinds:
            yield kind(None, x, y, 0, 0, button, False, False, False, x, y)

    def _paste(self, app: App[None]) -> Iterator[Message]:
        text = self._random.choice(TEXTS)
        self._steps.append(f"paste {text!r}")
        yield events.Paste(text)

    def _size(self, app: App[None]) -> Iterator[Message]:
        width, height = map(self._random.randint, SMALLEST, LARGEST)
        self._steps.append(f"{width}x{height}")
        app._driver._size = (width, height)  # type: ignore[union-attr]
        yield events.Resize(Size(width, height), Size(width, height))
