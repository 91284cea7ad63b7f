"""Two recorded replies beside each other, on one clock."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from eagle_chat.racing import Race
from eagle_chat.replaying import Player
from eagle_chat.screens.player import PlayerScreen
from eagle_chat.visible import visible
from eagle_chat.widgets.race import RaceColumn, RaceLanes


class RaceScreen(PlayerScreen):
    """Both clocks start at 0 and go at the same speed, each run at the pace it was recorded with."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy_card", "copy result", id="race.copy", tooltip="the result card, as text"),
    ]

    def __init__(
        self,
        player: Player,
        names: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
        race: Race | None = None,
    ) -> None:
        super().__init__(player, names, clock)
        self.race = race or Race(player.replays, names)

    def parts(self) -> Iterable[Widget]:
        """Prompt, columns, lanes."""
        replays = self.player.replays
        self.lanes = RaceLanes()
        self.columns = [
            RaceColumn(side, " · ".join(dict.fromkeys((replay.trace.header["method"], name))))
            for side, replay, name in zip(("left", "right"), replays, self.names, strict=True)
        ]
        trace = replays[0].trace
        self.status.loaded(trace.info, trace.header["seed"])
        prompt = visible(" ".join(trace.header["prompt"].split()))
        yield Static(Content.assemble(("you  ", "bold $primary"), prompt), id="race-prompt")
        yield Horizontal(*self.columns, id="race")
        yield self.lanes

    def paint(self) -> None:
        """Show the moment the player is at."""
        frames = [self.player.frame(run) for run in range(2)]
        for run, column in enumerate(self.columns):
            column.show(self.player.replays[run], frames[run], self.player.under_way(run))
        self.lanes.show(self.race, frames)
        notable = [
            f"{label} {frame.record.index}: {frame.notable}"
            for label, frame in zip(self.race.labels, frames, strict=True)
            if frame.record is not None and frame.notable is not None
        ]
        self.tell(" · ".join(notable))

    def action_copy_card(self) -> None:
        """The result as text, for a message or an issue."""
        card = self.race.card()
        if card is None:
            self.say(self.race.verdict())
            return
        self.app.copy_to_clipboard(card)
        self.say("Result card copied through the terminal (OSC 52), where it allows that.")

    def on_resize(self) -> None:
        """The lanes have another length."""
        self.call_after_refresh(self.paint)
