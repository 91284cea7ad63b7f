"""The methods to choose from, with a card for the one under the cursor."""

from collections.abc import Collection
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static

from eagle_chat.methods import CARDS, Method, Needs
from eagle_chat.screens.steady import SteadyModal

NEEDS = {Needs.NOTHING: "nothing beside the target", Needs.DRAFT_MODEL: "a small model"}


class MethodsScreen(SteadyModal[str | None]):
    """A list over the chat; its result is a method that can be chosen now.

    Those without what they need are listed too, dimmed: they are there to be read about.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "close", id="methods.close")]

    def __init__(self, current: str, available: Collection[str]) -> None:
        super().__init__()
        others = [method.value for method in Method if method not in available]
        self._names = [*available, *others]
        self._current, self._available = current, available

    def compose(self) -> ComposeResult:
        """The list, and the card below it."""
        with Vertical(id="methods") as box:
            box.border_title = "methods"
            box.border_subtitle = "enter drafts so from the next reply on, esc closes"
            yield OptionList(*map(self._line, self._names), id="methods-list")
            yield Static(id="methods-card")

    def on_mount(self) -> None:
        """Begin at the one that drafts."""
        self.query_one(OptionList).highlighted = self._names.index(self._current)

    def on_option_list_option_highlighted(self, message: OptionList.OptionHighlighted) -> None:
        """Its card."""
        self.query_one("#methods-card", Static).update(self._card(self._names[message.option_index]))

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Draft so, where that can be."""
        name = self._names[message.option_index]
        if name in self._available:
            self.dismiss(name)
        else:
            self.notify(
                f"{name} needs {_needs(name)}: start with --method {name} --head FOLDER", markup=False
            )

    def _line(self, name: str) -> Content:
        mark = "●" if name == self._current else " "
        line = f"{mark} {name}"
        return Content(line) if name in self._available else Content.styled(line, "dim")

    def _card(self, name: str) -> Content:
        if name not in list(Method):
            return Content("however the server drafts")
        card = CARDS[Method(name)]
        rows = {
            "proposes": card.proposes,
            "costs": card.costs,
            "wins": card.wins,
            "text": "plain decoding's" if card.seed_equal else "as likely as plain decoding's, not the same",
            "needs": _needs(name) + ("" if name in self._available else ", which is not here"),
            "paper": card.paper,
        }
        lines = [Content.assemble((f"{what:10}", "dim"), text) for what, text in rows.items()]
        return Content("\n").join(lines)


def _needs(name: str) -> str:
    needs = CARDS[Method(name)].needs
    return NEEDS.get(needs, f"{'an' if needs.value[0] == 'e' else 'a'} {needs.value} head")
