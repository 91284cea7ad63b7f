"""The line of keys. Where it is too narrow the least needed are left out; none is cut in two."""

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

LEFT_OUT_FIRST = ("new_chat", "cycle_view", "compare", "write", "phase")
STAY = ("help", "quit", "app.stop_reply")
PALETTE = "-command-palette"


class FittingFooter(Footer):
    """All the keys that fit whole; help names the others."""

    def compose(self) -> ComposeResult:
        """As Textual does, without what has no room."""
        keys = list(super().compose())
        for least in self._least_needed(keys):
            if sum(map(_cells, keys)) <= self.app.size.width:
                break
            keys.remove(least)
        yield from keys

    def on_resize(self, event: events.Resize) -> None:
        """Another width has room for other keys."""
        self.call_after_refresh(self.recompose)

    def _least_needed(self, keys: list[Widget]) -> list[Widget]:
        """The keys that may go, the first to go first."""
        named = [each for each in keys if isinstance(each, FooterKey) and not each.has_class(PALETTE)]
        first = [
            each for action in LEFT_OUT_FIRST for each in named if each.action.partition("(")[0] == action
        ]
        rest = [each for each in reversed(named) if each not in first and each.action not in STAY]
        return [*first, *rest]


def _cells(key: Widget) -> int:
    """Cells of a key, its words and the space behind them; the palette has a line before it instead."""
    return cell_len(f"{key.key_display} {key.description} ") if isinstance(key, FooterKey) else 0
