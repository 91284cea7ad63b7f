"""One line: what is loaded on the left, what happens right now on the right."""

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import HorizontalGroup
from textual.content import Content
from textual.widgets import Static

from eagle_chat.events import SessionInfo


class StatusLine(HorizontalGroup):
    """The top line of the screen."""

    def __init__(self, title: str) -> None:
        super().__init__(id="status-line")
        self._left = Static(_left(title), id="loaded")
        self._right = Static("starting…", id="state", markup=False)

    def compose(self) -> ComposeResult:
        """Left part, right part."""
        yield self._left
        yield self._right

    def loaded(self, info: SessionInfo, seed: int | None, filters: str = "") -> None:
        """Show models and settings, the filters that are on, and the seed of the newest reply."""
        parts = [_weights(info), settings(info), f"T={info.temperature:g}", filters]
        if seed is not None:
            parts.append(f"seed {seed}")
        self._left.update(_left(names(info), "  ".join(filter(None, parts))))

    def state(self, text: str, *, kind: str = "") -> None:
        """Show what happens now; `kind` picks the colour: live, stopped, failed or none."""
        state = self._right
        state.set_classes(f"-{kind}" if kind else "")
        # a new layout costs too much while a reply runs; a place that is too wide for a moment does no harm
        fits = kind == "live" and state.content_size.width >= cell_len(text)
        state.update(Content(text), layout=not fits)


def _weights(info: SessionInfo) -> str:
    """`bf16`, or what quantized weights have instead."""
    return info.dtype if info.quant == "none" else info.quant


def names(info: SessionInfo) -> str:
    """Target and method, or where it runs."""
    if info.server is not None:
        return f"{info.model} at {info.server.partition('://')[2]}"
    return info.model if info.method == "none" else f"{info.model} + {info.method}"


def settings(info: SessionInfo) -> str:
    """Nodes, depth and beam, where the method has them; `≤` where each round chooses below them."""
    most = "≤" if info.sized else ""
    return f"n{most}{info.nodes} d{most}{info.depth} b{info.beam}" if info.nodes else ""


def _left(title: str, details: str = "") -> Content:
    return Content.assemble(
        ("eagle-chat", "bold $primary"), "  ", (title, "bold"), "  ", (details, "$text-muted")
    )
