"""Asks before something is done that cannot be undone."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from eagle_chat.screens.steady import SteadyModal


class ConfirmScreen(SteadyModal[bool]):
    """One question; whatever is not a clear yes is a no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "yes", id="confirm.yes"),
        Binding("n,escape,enter", "dismiss(False)", "no", id="confirm.no"),
    ]

    def __init__(self, question: str, deed: str) -> None:
        super().__init__()
        self._question = question
        self._deed = deed

    def compose(self) -> ComposeResult:
        """The question, and what the keys do."""
        with Vertical(id="confirm") as box:
            box.border_subtitle = f"y {self._deed}s · n, esc keep"
            yield Static(self._question, markup=False)
