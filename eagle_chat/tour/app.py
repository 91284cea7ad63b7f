"""The application that shows the tour. It knows no engine: nothing is loaded but the screen."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE
from eagle_chat.look import Look
from eagle_chat.screens.help import HelpScreen
from eagle_chat.screens.tour import TourScreen
from eagle_chat.terminal import stderr_to_log, tell_failed
from eagle_chat.themed_app import NOTHING_TYPED, ThemedApp
from eagle_chat.widgets.draft_tree import DraftTreeView


class TourApp(ThemedApp):
    """One screen, which goes through the chapters."""

    CSS_PATH: ClassVar = ["../app.tcss", "../tour.tcss"]
    TITLE = "eagle-chat tour"
    BINDINGS: ClassVar[list[BindingType]] = NOTHING_TYPED

    def __init__(self, chapter: int = 1, *, theme: str | None = None, look: Look | None = None) -> None:
        super().__init__(theme, look)
        self.lesson = TourScreen(chapter)

    def get_default_screen(self) -> Screen[None]:
        """The lesson."""
        return self.lesson

    def action_help(self) -> None:
        """Keys and definitions."""
        if self.screen is self.lesson:
            nodes = [
                each
                for each in DraftTreeView.BINDINGS
                if isinstance(each, Binding) and each.action.startswith("select")
            ]
            self.push_screen(HelpScreen(("Tour", [*TourScreen.BINDINGS, *nodes, *TourApp.BINDINGS])))


def run_tour_app(chapter: int, theme: str | None, look: Look) -> int:
    """Run it in this terminal; the exit code. How to come back to this place stays on the normal screen."""
    with stderr_to_log() as log:
        app = TourApp(chapter, theme=theme, look=look)
        app.run()
    if app.return_code:
        tell_failed(log)
        return EXIT_FAILURE
    if not app.lesson.place.at_end:
        print(f"`eagle-chat tour {app.lesson.place.chapter}` goes on here.")
    return EXIT_DONE
