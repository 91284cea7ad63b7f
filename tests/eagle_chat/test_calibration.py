"""Confidence against acceptance: counted where the target was asked, and shown with how little is known."""

from dataclasses import replace

import pytest

from eagle_chat.calibration import Calibration
from eagle_chat.layout.calibration_strip import HEIGHT, strip
from eagle_chat.layout.rows import row_text, row_width
from eagle_chat.layout.speed import ROLES
from tests.eagle_chat.app_pilot import chat, picture, reply_over, run, send
from tests.eagle_chat.examples import example_plain, example_prefill, example_round, verdict
from tests.eagle_chat.fake_session import FakeSession


def test_only_what_the_target_was_asked() -> None:
    """Nodes below a rejected one say nothing about the drafter, and a cut reply says nothing at its end."""
    counts = Calibration()
    counts.add(example_round())  # 62 and 21 %, then 48 and 35 %, then 51 and 22 %; the target took 62, 35, 51
    assert counts.asked == [0, 0, 2, 1, 1, 1, 1, 0, 0, 0]
    assert counts.accepted == [0, 0, 0, 1, 0, 1, 1, 0, 0, 0]
    counts.add(verdict(8, example_round().tree, (0, 1), None))
    assert sum(counts.asked) == 6 + 2
    for record in (example_prefill(), example_plain()):
        counts.add(record)
    assert sum(counts.asked) == 8


def test_certain_drafts() -> None:
    """A confidence of exactly one has no bin of its own."""
    tree = replace(example_round().tree, values=(0.0,) * 9)
    counts = Calibration()
    counts.add(verdict(8, tree, (0, 1), b"x"))
    assert counts.asked[-1] == 4


def test_few_samples_are_marked() -> None:
    """A share of three tokens that looks as sure as one of three hundred."""
    counts = Calibration()
    for _ in range(20):
        counts.add(example_round())
    counts.add(verdict(8, example_round().tree, (0,), b"x"))
    counts.asked[9], counts.accepted[9] = 3, 2
    assert [row_text(row) for row in strip(counts, 80)] == [
        " confidence %    <10   10+   20+   30+   40+   50+   60+   70+   80+   90+",
        " accepted %        –     –     0   100     0   100    95     –     –   ~67",
        " of drafted        0     0    41    20    20    20    21     0     0     3",
    ]
    assert "<20" in row_text(strip(counts, 50)[0])
    assert "~67" in row_text(strip(counts, 50)[1])


@pytest.mark.parametrize("width", [10, 30, 60, 80, 200])
def test_fits(width: int) -> None:
    """A row over the edge, or a role that the gauge has no style for."""
    for ascii_only in (False, True):
        rows = strip(Calibration(), width, ascii_only)
        assert len(rows) == HEIGHT
        assert all(row_width(row) <= width for row in rows)
        assert all(role in ROLES for row in rows for _, role in row)
        assert "".join(map(row_text, rows)).isascii() or not ascii_only


@pytest.mark.parametrize("size", [(80, 20), (80, 24), (160, 50)])
def test_the_key(size: tuple[int, int]) -> None:
    """A strip that cannot be called, does not go, or forgets the replies before the last."""

    async def test() -> None:
        async with chat(FakeSession(), size=size) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            first = sum(app.feed.calibration.asked)
            await send(app, pilot, "sea")
            await reply_over(app, pilot)
            assert sum(app.feed.calibration.asked) == 2 * first > 0
            await pilot.press("tab")
            assert "confidence %" not in picture(app)
            await pilot.press("c")
            await pilot.pause()
            assert "confidence %" in picture(app)
            await pilot.press("c")
            await pilot.pause()
            assert "confidence %" not in picture(app)
            app.action_new_chat()
            assert sum(app.feed.calibration.asked) == 0

    run(test)
