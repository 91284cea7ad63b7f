"""Asks for a round or a time."""

import re
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from eagle_chat.screens.steady import SteadyModal

PLACE = re.compile(r"(?P<round>\d{1,9})|(?P<seconds>\d{1,9}(\.\d{0,9})?|\.\d{1,9}) ?s")


def parse_place(text: str) -> int | float | None:
    """`12` is a round, `1.5s` seconds; None for anything else."""
    match = PLACE.fullmatch(text.strip())
    if match is None:
        return None
    return int(match["round"]) if match["round"] else float(match["seconds"])


class GoToScreen(SteadyModal[int | float | None]):
    """One line over the replay."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "close", id="go_to.close")]

    def __init__(self, last_round: int, total_ms: float) -> None:
        super().__init__()
        self._title = f"go to: a round (0 to {last_round}) or a time (0s to {total_ms / 1000:.2f}s)"

    def compose(self) -> ComposeResult:
        """A field and what is wrong with its content."""
        with Vertical(id="go-to") as box:
            box.border_title = self._title
            yield Input(id="go-to-input")
            yield Static("", id="go-to-problem", markup=False)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Go there, or say what is not understood."""
        place = parse_place(message.value)
        if place is None and message.value.strip():
            self.query_one("#go-to-problem", Static).update("write 12 for a round, or 1.5s for a time")
        else:
            self.dismiss(place)
