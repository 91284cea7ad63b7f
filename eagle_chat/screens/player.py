"""What the screens of a replay share: the keys, the clock and the line that says where one is."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from eagle_chat.layout.tokens import truncate
from eagle_chat.replaying import Player, UnderWay
from eagle_chat.screens.chat import SMALLEST
from eagle_chat.screens.go_to import GoToScreen
from eagle_chat.screens.steady import SteadyScreen
from eagle_chat.visible import visible
from eagle_chat.widgets.draft_tree import DraftTreeView
from eagle_chat.widgets.fitting_footer import FittingFooter
from eagle_chat.widgets.header import StatusLine
from eagle_chat.widgets.progress import ReplayProgress

TICK = 0.04  # seconds
LONGEST_NAME = 24  # cells
NONE_THERE = "no notable round that way"


class PlayerScreen(SteadyScreen[None]):
    """Moves a player by keys and by the clock; what a moment looks like is for the screens themselves."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "play", "play", id="replay.play", tooltip="or pause; at the end: once more"),
        Binding("full_stop", "phase(1)", "phase", id="replay.phase", key_display=".,",
                tooltip="step by step through a round: draft, rerank, verify, accept, bonus"),
        Binding("comma", "phase(-1)", "one phase back", id="replay.phase_back", show=False),
        Binding("right,greater_than_sign,l", "step(1)", "round", id="replay.forward", key_display="←→",
                tooltip="one round on; this and every other jump pauses"),
        Binding("left,less_than_sign,h", "step(-1)", "one round back", id="replay.back", show=False),
        Binding("right_square_bracket", "step(10)", "ten rounds on", id="replay.ten_on", show=False),
        Binding("left_square_bracket", "step(-10)", "ten rounds back", id="replay.ten_back", show=False),
        Binding("n", "notable(1)", "notable", id="replay.next_notable",
                tooltip="the next round worth a look; N or p: the one before"),
        Binding("N,p", "notable(-1)", "the notable round before", id="replay.previous_notable", show=False),
        Binding("m", "marker(1)", "marker", id="replay.next_marker",
                tooltip="the next round a lesson has words for; M: the one before"),
        Binding("M", "marker(-1)", "the marker before", id="replay.previous_marker", show=False),
        Binding("g", "go_to", "go to", id="replay.go_to", show=False,
                tooltip="a round, as in 12, or a time, as in 1.5s"),
        Binding("home", "first", "to the start", id="replay.first", show=False, priority=True),
        Binding("end", "last", "to the end", id="replay.last", show=False, priority=True),
        Binding("plus,equals_sign", "speed(1)", "speed", id="replay.faster", key_display="-+",
                tooltip="faster, up to ×4; ×1 is as recorded"),
        Binding("minus", "speed(-1)", "slower, down to ×0.1", id="replay.slower", show=False),
        Binding("t", "cycle_view", "view", id="replay.view", tooltip="of the tree"),
        Binding("escape", "leave", "to the tree", id="replay.leave", show=False),
    ]  # fmt: skip

    def __init__(
        self, player: Player, names: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.player = player
        self.names = names  # of the files
        self.status = StatusLine("replay")
        self.progress = ReplayProgress()
        self._clock = clock
        self._last = 0.0

    def compose(self) -> ComposeResult:
        """The parts of the screen between the status line and the place."""
        yield self.status
        yield from self.parts()
        yield Static("", id="notable", markup=False)
        yield self.progress
        yield FittingFooter(compact=True, show_command_palette=False)
        yield Static("", id="too-small", markup=False)

    def parts(self) -> Iterable[Widget]:
        """What shows the recording."""
        raise NotImplementedError

    def paint(self) -> None:
        """Show the moment the player is at."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """The clock starts with the first frame."""
        one = truncate(visible(self.names[0]), LONGEST_NAME)
        self.status.state(f"replay of {one if len(self.names) == 1 else 'two traces'}")  # named above them
        self.set_class(self.player.has_markers, "-lesson")
        self.call_after_refresh(self._start)

    def on_resize(self) -> None:
        """Say what is missing when there is no room; the bar has another length."""
        needed = "×".join(map(str, SMALLEST))
        text = f"a replay needs {needed} (now {self.size.width}×{self.size.height}); pipe it for plain text."
        self.query_one("#too-small", Static).update(text)
        self.call_after_refresh(self.progress.show, self.player)

    def say(self, text: str) -> None:
        """One sentence, where the reasons for notable rounds stand."""
        self.query_one("#notable", Static).update(text, layout=self.player.has_markers)

    def tell(self, text: str) -> None:
        """What there is to say about the moment: the words of a lesson, or else this sentence."""
        self.say(visible(self.player.lesson) or text)

    def _start(self) -> None:
        self._last = self._clock()
        self._moved()
        self.set_interval(TICK, self._tick)

    def _tick(self) -> None:
        now = self._clock()
        passed, self._last = now - self._last, now
        if not self.player.playing:
            return
        before = self._seen()
        self.player.advance(passed)
        if self._seen() != before:
            self._moved()
        else:
            self.progress.show(self.player)

    def _seen(self) -> tuple[int, list[UnderWay | None]]:
        """What a picture depends on."""
        player = self.player
        return player.place, [player.under_way(run) for run in range(len(player.replays))]

    def _moved(self) -> None:
        self.say("")
        self.paint()
        self.progress.show(self.player)

    def action_play(self) -> None:
        """Pause or play."""
        self.player.toggle()
        self._last = self._clock()
        self._moved()

    def action_step(self, rounds: int) -> None:
        """So many rounds on."""
        self.player.step(rounds)
        self._moved()

    def action_phase(self, way: int) -> None:
        """One phase of a round on, or back."""
        self.player.step_phase(way)
        self._moved()

    def action_notable(self, way: int) -> None:
        """To a round that is worth a look."""
        found = self.player.notable(way)
        self._moved()
        if not found:
            self.say(NONE_THERE)

    def action_marker(self, way: int) -> None:
        """To a round that a lesson has words for."""
        if self.player.marker(way):
            self._moved()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what does something now."""
        return action != "marker" or self.player.has_markers

    def action_go_to(self) -> None:
        """Ask where to."""
        last = self.player.replays[0].rounds - 1
        self.player.playing = False
        self._moved()
        self.app.push_screen(GoToScreen(last, self.player.total_ms), self._go_to)

    def _go_to(self, wanted: int | float | None) -> None:
        match wanted:
            case int(number):
                self.player.go_to_round(number)
            case float(seconds):
                self.player.go_to_time(1000 * seconds)
        self._moved()

    def action_first(self) -> None:
        """To the start."""
        self.player.first()
        self._moved()

    def action_last(self) -> None:
        """To the end."""
        self.player.last()
        self._moved()

    def action_speed(self, steps: int) -> None:
        """Faster or slower."""
        self.player.change_speed(steps)
        self._moved()

    def action_cycle_view(self) -> None:
        """Another view of every tree."""
        for tree in self.query(DraftTreeView):
            tree.action_cycle_view()

    def action_leave(self) -> None:
        """To the part that had the keys at first, with no node selected."""
        for tree in self.query(DraftTreeView):
            tree.point_at(None)
        self.set_focus(self.query_one(self.AUTO_FOCUS) if self.AUTO_FOCUS else None)
