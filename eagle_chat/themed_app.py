"""What our applications share: themes, keys and ASCII as the user wants them, layouts by size."""

import os
from collections.abc import Sequence

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.errors import NoWidget
from textual.filter import LineFilter
from textual.theme import Theme

import themes
from eagle_chat.ascii_only import AsciiOnly
from eagle_chat.errors import UsageError
from eagle_chat.look import Look
from eagle_chat.screens.chat import HEIGHTS, WIDTHS
from eagle_chat.screens.palette import Palette
from eagle_chat.user_themes import UserThemes

LOOK_AGAIN = 1.0  # seconds between two looks at the user's themes

NOTHING_TYPED: list[BindingType] = [
    Binding("f1,question_mark", "help", "help", id="app.help", key_display="f1"),
    Binding("q", "quit", "quit", id="app.quit"),
    Binding("ctrl+q,ctrl+c", "quit", "quit", id="app.quit_anywhere", show=False, priority=True),
]
"""Keys of applications in which a letter is never a text."""


class ThemedApp(App[None]):
    """An application that wears one of `themes`."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(self, theme: str | None, look: Look | None = None) -> None:
        """Raises UsageError for a theme that is not there."""
        self.look = look or Look()
        self._ascii = [AsciiOnly()] if self.look.ascii_only else []
        # Textual answers NO_COLOR with grey unless it starts out with the terminal's own colours
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        for each in themes.load_themes():
            self.register_theme(each.to_textual())
        self._user_themes = UserThemes(self.look.themes)
        self._start_problems = self._read_user_themes()[1]
        chosen = theme or self._remembered() or self.look.configured or "eagle-dark"
        self._need_theme(chosen)
        self.theme = self._worn = "ansi-dark" if self.no_color else chosen
        self.set_keymap(dict(self.look.keymap))

    @property
    def ascii_only(self) -> bool:
        """Whether trees and gauges are to be drawn in ASCII."""
        return self.look.ascii_only

    @property
    def own_keys(self) -> frozenset[str]:
        """Keys that the user has given to something; editing texts must leave them alone."""
        return frozenset(key for keys in self.look.keymap.values() for key in keys.split(","))

    def on_mount(self) -> None:
        """Say what was wrong; from now on a theme that is chosen is remembered."""
        self._warn(self._start_problems)
        self.theme_changed_signal.subscribe(self, self._remember)
        if self.look.themes is not None:
            self.set_interval(LOOK_AGAIN, self.reload_themes)

    def reload_themes(self) -> None:
        """Show what the user saved; a file with a mistake leaves everything as it is."""
        names, problems = self._read_user_themes()
        self._warn(problems)
        if self.theme in names:
            self._watch_theme(self.theme)  # its name stays, so nothing else tells Textual

    def get_line_filters(self) -> Sequence[LineFilter]:
        """ASCII is made of what the other filters leave."""
        return [*super().get_line_filters(), *self._ascii]

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

    def _read_user_themes(self) -> tuple[set[str], list[str]]:
        found, problems = self._user_themes.look()
        for each in found:
            self.register_theme(each.to_textual())
        return {each.name for each in found}, problems

    def _remembered(self) -> str | None:
        theme = self.look.remembered()
        if theme is None or theme in self.available_themes:
            return theme
        self._start_problems.append(f"The theme chosen last, '{theme}', is no longer there.")
        return None

    def _remember(self, theme: Theme) -> None:
        """Only what was chosen since the start: the theme of `--theme`, saved anew, is no choice."""
        if theme.name != self._worn and not self.no_color:
            self.look.remember(theme.name)
        self._worn = theme.name

    def _need_theme(self, name: str) -> None:
        if name not in self.available_themes:
            why = "".join(f" {problem}" for problem in self._start_problems)
            known = ", ".join(sorted(self.available_themes))
            raise UsageError(f"No theme called '{name}'; there are {known}.{why}")

    def _warn(self, problems: list[str]) -> None:
        for problem in problems:
            self.notify(problem, title="Theme", severity="warning", markup=False)
