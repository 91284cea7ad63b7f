"""Pictures of the whole screen at three sizes, compared with the ones that are checked in.

After a wanted change: pytest tests/eagle_chat/test_snapshots.py --snapshot-update, then look at the files.
"""

import re
import threading

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.types import PropertyFilter, PropertyMatcher, SerializableData, SerializedData

import themes
from eagle_chat.app import EagleChatApp
from eagle_chat.frame_budget import FrameBudget
from eagle_chat.screens.compare import CompareScreen
from tests.eagle_chat.app_pilot import Chat, chat, reply_over, run, send, wait_until
from tests.eagle_chat.fake_session import FakeSession

SIZES = [(80, 24), (120, 40), (200, 60)]
TEXT = """The sky is blue because of **Rayleigh scattering**:

1. Sunlight holds *all* colours.
2. Air scatters short waves more, about as `1/λ⁴`.

```python
def scattered(wavelength: float) -> float:
    return wavelength**-4  # [relative]
```
"""


class SvgExtension(SingleFileSnapshotExtension):
    """One SVG file per picture, without the number that Textual makes up for each export."""

    _write_mode = WriteMode.TEXT
    file_extension = "svg"

    def serialize(
        self,
        data: SerializableData,
        *,
        exclude: PropertyFilter | None = None,
        include: PropertyFilter | None = None,
        matcher: PropertyMatcher | None = None,
    ) -> SerializedData:
        return re.sub(r"terminal-\d+-", "terminal-", str(data))


@pytest.fixture
def svg(snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> SnapshotAssertion:
    monkeypatch.setattr("eagle_chat.engine_feed.resident_bytes", lambda: 812_000_000)
    return snapshot.use_extension(SvgExtension)


def frozen() -> FrameBudget:
    """Clocks that stand still: no share is shown, and only the end of a reply paints."""
    return FrameBudget(clock=lambda: 0.0, cpu=lambda: 0.0)


async def shown(app_and_pilot: Chat) -> str:
    """The screen as SVG, once it has come to rest."""
    app, pilot = app_and_pilot
    picture = ""
    while picture != (picture := app.export_screenshot()):
        await pilot.pause(0.15)
    return picture


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "{}x{}".format(*size))
def test_after_a_reply(size: tuple[int, int], svg: SnapshotAssertion) -> None:
    """Catches anything that moves, changes colour or disappears without being meant to."""

    async def test() -> None:
        async with chat(FakeSession(TEXT), size=size, budget=frozen()) as (app, pilot):
            await send(app, pilot, "Why is the sky blue?\nShow [code].")
            await reply_over(app, pilot)
            assert await shown((app, pilot)) == svg

    run(test)


@pytest.mark.parametrize("theme", [spec.name for spec in themes.load_themes()])
def test_every_theme(theme: str, svg: SnapshotAssertion) -> None:
    """Catches a theme in which something cannot be told from what is beside it: look at the picture."""

    async def test() -> None:
        async with chat(FakeSession(TEXT), size=(80, 24), theme=theme, budget=frozen()) as (app, pilot):
            await send(app, pilot, "Why is the sky blue?")
            await reply_over(app, pilot)
            await pilot.press("escape", "down", "down")  # the inspector, too
            assert await shown((app, pilot)) == svg

    run(test)


def test_no_colour(svg: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a state that only its colour tells."""
    monkeypatch.setenv("NO_COLOR", "1")

    async def test() -> None:
        async with chat(FakeSession(TEXT), size=(80, 24), budget=frozen()) as (app, pilot):
            await send(app, pilot, "Why is the sky blue?")
            await reply_over(app, pilot)
            await pilot.press("escape", "down", "down")
            assert await shown((app, pilot)) == svg

    run(test)


def test_start(svg: SnapshotAssertion) -> None:
    """Catches a first screen that does not say what to do."""

    async def test() -> None:
        async with chat(FakeSession(), size=(80, 24), budget=frozen()) as (app, pilot):
            assert await shown((app, pilot)) == svg

    run(test)


def test_in_the_middle_of_a_reply(svg: SnapshotAssertion) -> None:
    """Catches streaming text that looks unlike the finished one, and a footer that does not offer to stop."""

    async def test() -> None:
        pace = threading.Semaphore(9)
        async with chat(FakeSession(TEXT, pace=pace), size=(120, 40), budget=frozen()) as (app, pilot):
            await send(app, pilot, "Why is the sky blue?")
            reply = await running(app, rounds=8)
            app.chat.paint(reply, app.feed._figures(reply), text=True, picture=True)
            app.chat.status.state("▶ round 8", kind="live")
            app.chat.transcript.settle()  # empty rows below the text depend on how it came, unseen
            await pilot.pause(0.2)
            assert await shown((app, pilot)) == svg

    run(test)


async def running(app: EagleChatApp, rounds: int):  # type: ignore[no-untyped-def]
    """The reply under way, once it has come so far."""
    await wait_until(lambda: app.feed.reply is not None and app.feed.reply.statistics.rounds == rounds)
    return app.feed.reply


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=lambda size: "{}x{}".format(*size))
def test_calibration(size: tuple[int, int], svg: SnapshotAssertion) -> None:
    """Catches a strip that covers other figures, or one without a way to it."""

    async def test() -> None:
        async with chat(FakeSession(TEXT), size=size, budget=frozen()) as (app, pilot):
            await send(app, pilot, "Why is the sky blue?")
            await reply_over(app, pilot)
            await pilot.press("tab", "c", "t", "t", "t")
            assert await shown((app, pilot)) == svg

    run(test)


def test_compare(svg: SnapshotAssertion) -> None:
    """Catches a comparison whose columns or verdict are out of place."""

    async def test() -> None:
        async with chat(FakeSession(TEXT), size=(120, 40), budget=frozen()) as (app, pilot):
            await send(app, pilot, "Why is the sky blue?")
            await reply_over(app, pilot)
            await pilot.press("ctrl+r")
            await wait_until(lambda: isinstance(app.screen, CompareScreen) and app.screen.verdict is not None)
            assert await shown((app, pilot)) == svg

    run(test)
