"""The frame budget, with clocks that tests turn by hand."""

import pytest

from eagle_chat.frame_budget import PICTURE_LONGEST, SHARE, TEXT_LONGEST, FrameBudget


class Clocks:
    """A wall clock and a CPU clock."""

    def __init__(self) -> None:
        self.wall = self.cpu = 100.0

    def budget(self) -> FrameBudget:
        return FrameBudget(lambda: self.wall, lambda: self.cpu)


def frames(cost: float, seconds: float) -> tuple[int, int, float]:
    """Text additions, pictures and share of a reply whose every frame costs `cost`."""
    clocks = Clocks()
    budget = clocks.budget()
    budget.start()
    texts = pictures = 0
    for _ in range(round(seconds * 20)):
        clocks.wall += 0.05
        text, picture = budget.text_due(), budget.picture_due()
        if text or picture:
            clocks.cpu += cost
            budget.painted(text=text, picture=picture)
        texts, pictures = texts + text, pictures + picture
    assert budget.share is not None
    return texts, pictures, budget.share


@pytest.mark.parametrize("cost", [0.004, 0.008, 0.015])
def test_the_share_holds_whatever_a_frame_costs(cost: float) -> None:
    """Catches a screen that slows the engine down more than it says."""
    _, pictures, share = frames(cost, 60)
    assert share <= SHARE * 1.05
    assert pictures >= 0.8 * 60 * SHARE / cost


def test_cheap_frames_stop_at_ten_a_second_and_text_at_eight() -> None:
    """Catches a fast machine that paints for nothing."""
    texts, pictures, _ = frames(0.0001, 60)
    assert pictures <= 600
    assert texts <= 480


def test_dear_frames_leave_text_alone_once_a_second() -> None:
    """Catches text that stops appearing when painting is slow, and pictures that are painted all the same."""
    texts, pictures, _ = frames(0.2, 60)
    assert texts >= 60 / TEXT_LONGEST - 5
    assert pictures <= 60 / PICTURE_LONGEST + 2


def test_everything_is_due_while_nothing_runs() -> None:
    """Catches an idle screen that lags."""
    budget = Clocks().budget()
    assert budget.text_due()
    assert budget.picture_due()
    budget.start()
    assert not budget.text_due()
    budget.stop()
    assert budget.picture_due()


def test_a_pause_counts_nowhere() -> None:
    """Catches a share that shrinks while the engine waits, or grows by what is painted meanwhile."""
    clocks = Clocks()
    budget = clocks.budget()
    budget.start()
    budget.painted(text=True, picture=True)
    clocks.wall, clocks.cpu = clocks.wall + 1, clocks.cpu + 0.01
    budget.painted(text=True, picture=True)
    share = budget.share
    for _ in range(2):
        budget.pause()
        clocks.wall, clocks.cpu = clocks.wall + 100, clocks.cpu + 5
        assert budget.picture_due()
        budget.painted(text=True, picture=True)
    budget.resume()
    budget.resume()
    assert not budget.picture_due()
    budget.painted(text=True, picture=True)
    assert budget.share == pytest.approx(share)
    budget.pause()
    budget.stop()
    budget.resume()
    assert budget.picture_due()
