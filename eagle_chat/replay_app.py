"""The application that replays recorded traces. It knows no engine: nothing is loaded but the screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from eagle_chat.documents import Turn
from eagle_chat.errors import EXIT_FAILURE
from eagle_chat.export import turn_of
from eagle_chat.exporting_app import ExportingApp
from eagle_chat.look import Look
from eagle_chat.racing import Race
from eagle_chat.replaying import Player
from eagle_chat.screens.help import HelpScreen
from eagle_chat.screens.player import PlayerScreen
from eagle_chat.screens.race import RaceScreen
from eagle_chat.screens.replay import ReplayScreen
from eagle_chat.terminal import stderr_to_log, tell_failed
from eagle_chat.themed_app import NOTHING_TYPED, ThemedApp
from eagle_chat.widgets.draft_tree import DraftTreeView


class ReplayApp(ExportingApp):
    """One trace on the layout of the chat, or two side by side."""

    CSS_PATH: ClassVar = ["app.tcss", "replay.tcss"]
    TITLE = "eagle-chat replay"
    BINDINGS: ClassVar[list[BindingType]] = NOTHING_TYPED

    def __init__(
        self, player: Player, names: Sequence[str], *, theme: str | None = None,
        clock: Callable[[], float] = time.monotonic, race: Race | None = None, look: Look | None = None,
    ) -> None:  # fmt: skip
        """`race` is what is known of two runs beside their recordings."""
        super().__init__(theme, look)
        self.player_screen: PlayerScreen
        if len(player.replays) == 1:
            self.player_screen = ReplayScreen(player, names, clock)
        else:
            self.player_screen = RaceScreen(player, names, clock, race)

    def get_default_screen(self) -> Screen[None]:
        """The recording."""
        return self.player_screen

    def written(self) -> tuple[str, Sequence[Turn]]:
        """Whole, wherever the replay is."""
        traces = [replay.trace for replay in self.player_screen.player.replays]
        return traces[0].info.model, [turn_of(trace) for trace in traces]

    def say(self, text: str) -> None:
        """Where the replay says why a round is notable."""
        if self.screen is self.player_screen:
            self.player_screen.say(text)
        else:
            super().say(text)

    def action_help(self) -> None:
        """Keys and definitions."""
        if self.screen is self.player_screen:
            nodes = [
                each
                for each in DraftTreeView.BINDINGS
                if isinstance(each, Binding) and each.action.startswith("select")
            ]
            own = RaceScreen.BINDINGS if isinstance(self.player_screen, RaceScreen) else []
            keys = [*PlayerScreen.BINDINGS, *own, *nodes, *ReplayApp.BINDINGS, *ExportingApp.BINDINGS]
            self.push_screen(HelpScreen(("Replay", keys), replay=True))


def check_theme(theme: str | None, look: Look) -> None:
    """Raises UsageError for one that is not there, before anything slow is done for a replay."""
    ThemedApp(theme, look)


def run_replay_app(
    player: Player, names: Sequence[str], theme: str | None, look: Look, race: Race | None = None
) -> int:
    """Run it in this terminal; the exit code. The result card of a `race` stays on the normal screen."""
    with stderr_to_log() as log:
        app = ReplayApp(player, names, theme=theme, race=race, look=look)
        app.run()
    if race is not None:
        print(race.card())
    if app.return_code:
        tell_failed(log)
        return EXIT_FAILURE
    return 0
