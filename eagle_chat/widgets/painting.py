"""From rows of (text, role) to strips of cells, with the colours of a widget's component classes."""

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from eagle_chat.layout.rows import Row

REVERSED = Style(reverse=True)


def role_styles(widget: Widget, prefix: str, roles: tuple[str, ...]) -> dict[str, Style]:
    """The style of every role under the current theme."""
    return {role: widget.get_component_rich_style(f"{prefix}{role}") for role in roles}


def to_strip(row: Row, styles: dict[str, Style]) -> Strip:
    """The row as cells. Text goes in as it is: nothing in it is markup."""
    return Strip([Segment(text, styles[role]) for text, role in row if text])


def reversed_at(strip: Strip, x: int, width: int) -> Strip:
    """The strip with some cells in reverse video, which needs no colour."""
    end = x + width
    middle = strip.crop(x, end).apply_style(REVERSED)
    return Strip.join([strip.crop(0, x), middle, strip.crop(end)])
