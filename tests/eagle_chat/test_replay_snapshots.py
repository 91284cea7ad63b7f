"""Pictures of the replay, compared with the ones that are checked in; see test_snapshots.py."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.eagle_chat.app_pilot import run
from tests.eagle_chat.recordings import replay_of
from tests.eagle_chat.replay_pilot import replaying
from tests.eagle_chat.test_snapshots import TEXT, shown, svg

__all__ = ["svg"]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=lambda size: "{}x{}".format(*size))
def test_in_the_middle(size: tuple[int, int], tmp_path: Path, svg: SnapshotAssertion) -> None:
    """Catches a replay that looks unlike the chat, or lines that run into each other."""
    replay = replay_of(tmp_path / "a.jsonl", TEXT)

    async def test() -> None:
        async with replaying(replay, size=size) as (app, _, pilot):
            await pilot.press("right_square_bracket")
            assert await shown((app, pilot)) == svg

    run(test)


def test_race(tmp_path: Path, svg: SnapshotAssertion) -> None:
    """Catches lanes and columns that are out of place."""
    replays = replay_of(tmp_path / "a.jsonl", TEXT), replay_of(tmp_path / "b.jsonl", TEXT, method="none")

    async def test() -> None:
        async with replaying(*replays, size=(120, 40)) as (app, _, pilot):
            await pilot.press("right_square_bracket")
            assert await shown((app, pilot)) == svg

    run(test)
