"""Runs an asynchronous generator for a thread that waits, so that a wait can be ended from outside."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from typing import TypeVar

Item = TypeVar("Item")

LOOK_AT_STOP = 0.05  # seconds between looks at `stop` while nothing comes


def interruptible_items(items: AsyncGenerator[Item, None], stop: threading.Event) -> Iterator[Item]:
    """The items as they come, until the last one or until `stop` is set; then what they come from is closed.

    A blocking read could only look at `stop` when something arrives: a server that thinks for a minute before
    its first word would not be stopped.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        coming = None
        try:
            while not stop.is_set():
                coming = loop.create_task(_next(items))
                while not coming.done() and not stop.is_set():
                    loop.run_until_complete(asyncio.wait({coming}, timeout=LOOK_AT_STOP))
                item = coming.result() if coming.done() else None
                if item is None:
                    return
                yield item[0]
        finally:
            loop.run_until_complete(_close(items, coming))


async def _next(items: AsyncGenerator[Item, None]) -> tuple[Item] | None:
    """None at the end: StopAsyncIteration cannot leave a task."""
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None


async def _close(items: AsyncGenerator[Item, None], coming: asyncio.Task[tuple[Item] | None] | None) -> None:
    if coming is not None and not coming.done():
        coming.cancel()
        await asyncio.wait({coming})
    await items.aclose()
