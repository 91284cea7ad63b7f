"""A recorded race: a column for each run, and lanes that show who is how far."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalGroup, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from eagle_chat.layout.tokens import truncate
from eagle_chat.racing import Race
from eagle_chat.replaying import CUT_OFF, Frame, Replay, UnderWay
from eagle_chat.visible import visible
from eagle_chat.widgets.draft_tree import DraftTreeView
from eagle_chat.widgets.recorded_reply import written

LABEL = 16  # cells of a lane's name at most


class RaceColumn(Vertical):
    """One run at a moment of the common clock: its text, its newest tree, its numbers."""

    def __init__(self, name: str, title: str) -> None:
        super().__init__(id=name, classes="run")
        self.border_title = Content(f" {visible(title)} ")
        self.tree_view = DraftTreeView()
        self._text = Static("", markup=False, classes="run-text")
        self._numbers = Static("", markup=False, classes="run-numbers")

    def compose(self) -> ComposeResult:
        """Text above, tree and numbers below."""
        with VerticalScroll(), VerticalGroup(classes="page"):
            yield self._text
        yield self.tree_view
        yield self._numbers

    def on_mount(self) -> None:
        """Follow the end of the text."""
        self.query_one(VerticalScroll).anchor()

    def show(self, replay: Replay, frame: Frame, under_way: UnderWay | None) -> None:
        """Show this moment; `under_way` is a round that is not over yet."""
        self._text.update(written(frame))
        if under_way is None:
            self.tree_view.show(frame.record)
        else:
            self.tree_view.show(under_way.record, under_way.phase)
        self._numbers.update(Content(_numbers(replay, frame)), layout=False)


class RaceLanes(Static):
    """A bar of tokens for each run, and the line that says how it stands."""

    def __init__(self) -> None:
        super().__init__("", id="lanes", markup=False)

    def show(self, race: Race, frames: Sequence[Frame]) -> None:
        """Draw this moment."""
        width = self.content_size.width
        label_width = min(LABEL, max(map(cell_len, race.labels)))
        count_width = len(str(race.most_tokens))
        lines = []
        for label, frame in zip(race.labels, frames, strict=True):
            tokens = frame.statistics.new_tokens
            name = truncate(visible(label), label_width)
            name += " " * (label_width - cell_len(name))
            numbers = f"{tokens:>{count_width}} tokens {_speed(frame):>7} tok/s"
            bar = _bar(tokens / race.most_tokens, max(1, width - label_width - len(numbers) - 2))
            lines.append(Content.assemble((name, "bold"), " ", (bar, "$gauge-strip"), " ", numbers))
        lines.append(Content.styled(race.line(frames), "bold"))
        self.update(Content("\n").join(lines), layout=False)


def _speed(frame: Frame) -> str:
    speed = frame.statistics.tokens_per_second
    return "–" if speed is None else f"{speed:.1f}"


def _numbers(replay: Replay, frame: Frame) -> str:
    tau = frame.statistics.tau
    parts = [
        f"round {max(0, frame.done - 1)}/{replay.rounds - 1}",
        f"τ {'–' if tau is None else f'{tau:.2f}'}",
    ]
    if frame.over:
        done = f"done after {replay.ms / 1000:.2f} s"
        parts.append(done if replay.trace.summary is not None else CUT_OFF)
    return "   ".join(parts)


def _bar(share: float, cells: int) -> str:
    done = round(cells * share)
    return "█" * done + "░" * (cells - done)
