"""The program that `eagle-chat bench --ui` watches: the same reply without the app and with it, in turns.

It runs in a terminal of its own, with the real driver, and writes a JSON object a line to `report`: first
`{"info": …}`, then `{"sample": …}` for every reply.
"""

from __future__ import annotations

import asyncio
import gc
import json
import pickle
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

from eagle_chat.bench_ui import HEADLESS, HIDDEN, MODES, Asked
from eagle_chat.errors import EagleChatError
from eagle_chat.events import Finished
from eagle_chat.frame_budget import FrameBudget

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from eagle_chat.app import EagleChatApp
    from eagle_chat.session import ChatSession


class Clocked(FrameBudget):
    """The app's own budget, which also notes what its thread took from the first event to the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.wall = self.cpu = 0.0

    def start(self) -> None:
        """The reply begins."""
        super().start()
        self.wall, self.cpu = time.monotonic(), time.thread_time()

    def stop(self) -> None:
        """The reply is over."""
        super().stop()
        self.wall, self.cpu = time.monotonic() - self.wall, time.thread_time() - self.cpu


def main(asked: Asked, report: IO[str]) -> None:
    """Load, warm up, measure."""
    from eagle_chat.loading import load_session

    tell = _teller(report)
    try:
        session = load_session(asked.options, lambda event: None)
        tell({"info": asdict(session.info)})
        for mode in MODES:  # what is slow only once
            _sample(session, asked.prompt, mode)
        for pair in range(asked.pairs):
            first = pair % len(MODES)
            for mode in (*MODES[first:], *MODES[:first]):
                tell({"sample": {"pair": pair, "mode": mode} | _sample(session, asked.prompt, mode)})
    except EagleChatError as error:
        tell({"failed": str(error), "code": error.exit_code})


def _teller(report: IO[str]) -> Callable[[dict[str, Any]], None]:
    def tell(value: dict[str, Any]) -> None:
        report.write(json.dumps(value) + "\n")
        report.flush()

    return tell


def _sample(session: ChatSession, prompt: str, mode: str) -> dict[str, Any]:
    """One reply to a conversation that is empty, nothing cached."""
    session.new_chat()
    session.watched = mode != HEADLESS  # `eagle-chat run` records nothing either
    return _without_screen(session, prompt) if mode == HEADLESS else _with_screen(session, prompt, mode)


def _without_screen(session: ChatSession, prompt: str) -> dict[str, Any]:
    """In a thread as in the app, and nobody beside it."""
    finished: list[Finished] = []

    def reply() -> None:
        for event in session.ask(prompt, seed=0, stop=threading.Event()):
            if isinstance(event, Finished):
                finished.append(event)

    thread = threading.Thread(target=reply)
    thread.start()
    thread.join()
    if not finished:
        raise EagleChatError("the reply failed; `eagle-chat run` with the same options says why")
    return _figures(finished[0].summary)


def _with_screen(session: ChatSession, prompt: str, mode: str) -> dict[str, Any]:
    """The whole app, from its start to its end."""
    from eagle_chat.app import EagleChatApp

    clocked = Clocked()
    app = EagleChatApp(lambda progress: session, title=session.info.model, budget=clocked)
    app.chat.tree_view.display = mode != HIDDEN

    async def drive(pilot: Pilot[object]) -> None:
        await _type(app, prompt)
        while app.busy:
            await asyncio.sleep(0.1)  # looking costs nothing that can be measured
        app.run_quit()

    app.run(auto_pilot=drive)
    app.worker.join()
    reply = app.feed.reply
    if reply is None or not reply.summary:
        raise EagleChatError(app.failure or (reply and reply.problem) or "the app ended without a reply")
    shares = {"share": clocked.cpu / clocked.wall, "own_share": clocked.share}
    return _figures(reply.summary) | shares


async def _type(app: EagleChatApp, prompt: str) -> None:
    """Send the prompt as soon as there is somebody to answer it."""
    while app.feed.info is None:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)  # the first screen is drawn
    gc.collect()  # as in a chat, whose screen is there when loading ends with this
    gc.freeze()
    app.chat.sent(prompt)
    app.chat.busy = True
    app.worker.ask(prompt, seed=0)


def _figures(summary: Any) -> dict[str, Any]:
    return {"tokens_per_second": summary["tokens_per_second"], "tokens": summary["tokens"]}


if __name__ == "__main__":
    with open(int(sys.argv[1]), "w", encoding="utf-8") as pipe:
        main(pickle.loads(bytes.fromhex(sys.argv[2])), pipe)
