"""The chapters of the tour, to choose from."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from eagle_chat.screens.steady import SteadyModal
from eagle_chat.tour.chapters import chapters


class ChaptersScreen(SteadyModal[int | None]):
    """A list over the lesson; its result is the number of a chapter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,c,q", "dismiss", "close", id="chapters.close"),
    ]

    def __init__(self, current: int) -> None:
        super().__init__()
        self._current = current

    def compose(self) -> ComposeResult:
        """A line for each."""
        titles = [Content(f"{number}  {each.title}") for number, each in enumerate(chapters(), start=1)]
        listed = OptionList(*titles, id="chapters")
        listed.border_title = "chapters"
        listed.border_subtitle = "enter opens, esc closes"
        yield listed

    def on_mount(self) -> None:
        """Begin at the one that is open."""
        self.query_one(OptionList).highlighted = self._current - 1

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Go there."""
        self.dismiss(message.option_index + 1)
