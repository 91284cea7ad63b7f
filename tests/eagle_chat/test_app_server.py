"""The app with a server behind it: text, gauge, and acceptance by depth where the tree would be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from eagle_chat.app import EagleChatApp
from eagle_chat.events import Arrived, ServerSays
from eagle_chat.layout import acceptance, server_speed
from eagle_chat.layout.rows import row_text, row_width
from eagle_chat.layout.speed import UNKNOWN
from eagle_chat.options import Options
from eagle_chat.records import Acceptance
from eagle_chat.server.session import connect
from eagle_chat.server.statistics import ServerStatistics
from tests.eagle_chat.app_pilot import Chat, chat, picture, replies, reply_over, run, send, wait_until
from tests.eagle_chat.http_server import Cut, Script, delta, serving, sky
from tests.eagle_chat.test_server_metrics import vllm

SKY = "The sky is blue."


@asynccontextmanager
async def chat_with(script: Script, size: tuple[int, int] = (100, 40)) -> AsyncIterator[Chat]:
    """The app, connected to a server that follows `script`."""
    with serving(script) as url:
        session = connect(Options(model="", server=url), lambda loading: None)
        async with chat(session, size) as (app, pilot):  # type: ignore[arg-type]
            yield app, pilot


def panel(app: EagleChatApp) -> str:
    """What stands in the tree's place."""
    return app.chat.tree_view.text()


def test_acceptance_by_depth_in_place_of_the_tree() -> None:
    """Catches an empty tree, counters since the server's start, and a clock that is not said to be ours."""

    async def test() -> None:
        script = Script(replies=[sky], metrics=[vllm(100, 80, 40, 1000), vllm(110, 87, 42, 1007)])
        async with chat_with(script) as (app, pilot):
            assert "A server does not show its draft trees" in panel(app)
            await send(app, pilot, "sky?")
            await reply_over(app, pilot)
            assert replies(app) == [SKY]
            assert "τ 1.90, 10 drafts, 9 of 20 drafted tokens accepted" in panel(app)
            assert [line.split()[-2:] for line in panel(app).splitlines() if " d" in line[:2]] == [
                ["70", "%"], ["20", "%"],
            ]  # fmt: skip
            seen = picture(app)
            assert "llama at 127.0.0.1:" in seen
            assert "speed by our clock" in seen
            assert "tokens per piece" in seen
            assert "draft tree" not in seen

    run(test)


def test_a_server_that_does_not_say() -> None:
    """Catches figures made up where there is no metrics page, and a comparison that cannot be."""

    async def test() -> None:
        async with chat_with(Script(replies=[sky])) as (app, pilot):
            await send(app, pilot, "sky?")
            await reply_over(app, pilot)
            assert "The server does not say how much of its drafts it accepts." in panel(app)
            await pilot.press("ctrl+r")
            await pilot.pause()
            assert app.screen is app.chat
            assert "A server decodes as it was started" in picture(app)
            await pilot.press("escape", "h")
            await pilot.pause()
            assert replies(app) == [SKY]
            assert "does not say which tokens were drafted" in picture(app)
            await pilot.press("ctrl+n")
            await pilot.pause()
            assert "A server does not show its draft trees" in panel(app)

    run(test)


def test_stopped_in_the_middle() -> None:
    """Catches an escape that waits for the server's next word, and text that goes with the stream."""

    async def test() -> None:
        script = Script()

        def endless(request: dict[str, Any]) -> Iterator[bytes]:
            yield delta("The sky")
            script.hung_up.wait(8)

        script.replies = [endless]
        async with chat_with(script) as (app, pilot):
            await send(app, pilot, "sky?")
            await wait_until(lambda: replies(app) == ["The sky"])
            await pilot.press("escape")
            await reply_over(app, pilot)
            assert replies(app) == ["The sky"]
            assert "■ stopped" in picture(app)
            script.hung_up.set()

    run(test)


def test_asked_again_after_a_failure() -> None:
    """Catches a failed reply that loses its text, or that f5 does not replace."""

    async def test() -> None:
        def cut(request: dict[str, Any]) -> Iterator[bytes]:
            yield delta("The sky")
            raise Cut

        async with chat_with(Script(replies=[cut, sky])) as (app, pilot):
            await send(app, pilot, "sky?")
            await reply_over(app, pilot)
            assert replies(app) == ["The sky"]
            assert "closed the connection in the middle" in picture(app)
            await pilot.press("f5")
            await reply_over(app, pilot)
            assert replies(app) == [SKY]

    run(test)


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_rows_fit(width: int, ascii_only: bool) -> None:
    """Catches rows that are wider than their place, and signs that a terminal of 1985 does not have."""
    deep = Acceptance("vLLM", 3.25, 1000, 5000, 2250, (1.0, 0.7, 0.35, 0.15, 0.05), others=True)
    for told in (None, deep, Acceptance("SGLang", 2.5)):
        stats = ServerStatistics()
        for tokens in (1, 3, 12):
            stats.arrived(Arrived("x", 40.0, tokens))
        stats.says(ServerSays(16, told))
        for height in (2, 4, 9):
            rows = server_speed.layout(stats, width, height, ascii_only)
            assert len(rows) <= height
            rows += acceptance.layout(stats, width, height, ascii_only)
            assert max(map(row_width, rows)) <= width
            text = "".join(map(row_text, rows)).replace(UNKNOWN, "")  # which is translated later
            assert not ascii_only or text.isascii()
