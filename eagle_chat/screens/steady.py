"""Screens that look only at the newest size of the terminal."""

from textual import events
from textual.screen import ModalScreen, Screen, ScreenResultType


class SteadyScreen(Screen[ScreenResultType]):
    """In Textual 8.2 a screen that is laid out tells itself its size once more.

    Where two sizes come at once, as from a window that is dragged, each follows the other for ever.
    """

    async def on_event(self, event: events.Event) -> None:
        """A size that is no longer that of the terminal is for nobody: the newer one is on its way."""
        if not isinstance(event, events.Resize) or event.size == self.app.size:
            await super().on_event(event)


class SteadyModal(SteadyScreen[ScreenResultType], ModalScreen[ScreenResultType]):
    """The same over another screen."""
