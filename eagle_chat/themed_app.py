"""What our applications share: our themes, no colour where none is wanted, sizes that change the layout."""

import os

from textual import events
from textual.app import App
from textual.errors import NoWidget

import themes
from eagle_chat.errors import UsageError
from eagle_chat.screens.chat import HEIGHTS, WIDTHS
from eagle_chat.screens.palette import Palette


class ThemedApp(App[None]):
    """An application that wears one of `themes`."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(self, theme: str | None) -> None:
        """Raises UsageError for a theme that is not there."""
        # Textual answers NO_COLOR with grey unless it starts out with the terminal's own colours
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        for each in themes.load_themes():
            self.register_theme(each.to_textual())
        if theme is not None and theme not in self.available_themes:
            raise UsageError(
                f"No theme called '{theme}'; there are {', '.join(sorted(self.available_themes))}."
            )
        self.theme = "ansi-dark" if self.no_color else theme or "eagle-dark"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Colours of the tree for themes that do not name them."""
        defaults = themes.tree_variable_defaults(dark=self.current_theme.dark)
        return dict.fromkeys(defaults, "ansi_default") if self.current_theme.ansi else defaults

    async def on_event(self, event: events.Event) -> None:
        """Two events are for nobody, and would end the application in Textual 8.2."""
        if not (isinstance(event, events.InputEvent) and self._comes_too_late(event)):
            await super().on_event(event)

    def _comes_too_late(self, event: events.InputEvent) -> bool:
        """A click on what has just been removed, and anything when the last screen has gone."""
        if not self.screen_stack or not isinstance(event, events.MouseDown):
            return not self.screen_stack
        try:
            return self.get_widget_at(event.x, event.y)[0].parent is None
        except NoWidget:
            return False

    def action_command_palette(self) -> None:
        """Ours."""
        if self.use_command_palette and not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))
