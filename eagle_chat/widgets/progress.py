"""Where a replay is: playing or not, how fast, which round, what time, and a bar."""

from textual.content import Content
from textual.widgets import Static

from eagle_chat.replaying import AS_RECORDED, Player

MOST_CELLS = 40  # of the bar


class ReplayProgress(Static):
    """One line. Its fields keep their width, so nothing moves while it plays."""

    def __init__(self) -> None:
        super().__init__("", id="replay-progress", markup=False)

    def show(self, player: Player) -> None:
        """Draw this place."""
        text = " ".join([_state(player), *_rounds(player), _time(player)])
        room = min(MOST_CELLS, self.size.width - len(text) - 2)
        bar = _bar(player.ms / player.total_ms if player.total_ms else 1.0, room) if room >= 6 else ""
        content = Content.assemble((text, "bold"), "  ", (bar, "$gauge-strip"))
        self.update(content, layout=False)


def speed_words(speed: float) -> str:
    """`×0.25`; the recorded speed by name."""
    return "×1 as recorded" if speed == AS_RECORDED else f"×{speed:g}"


def _state(player: Player) -> str:
    words = "▶ playing" if player.playing else "■ the end" if player.over else "❚❚ paused"
    return f"{words:<10} {speed_words(player.speed):<14}"


def _rounds(player: Player) -> list[str]:
    """Of each run its newest round; the prefill is round 0."""
    shown = []
    for run, replay in enumerate(player.replays):
        last = replay.rounds - 1
        done, width = player.done(run), len(str(last))
        shown.append(f"{'round ' if not run else '· '}{max(0, done - 1):>{width}}/{last}")
    return shown


def _time(player: Player) -> str:
    total = f"{player.total_ms / 1000:.2f}"
    return f" {player.ms / 1000:>{len(total)}.2f}/{total} s"


def _bar(share: float, cells: int) -> str:
    done = round(cells * share)
    return "━" * done + "╌" * (cells - done)
