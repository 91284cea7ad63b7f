"""Layout costs time for every widget on the page, also far above the view.

While text streams, that part is left out.
"""

from itertools import takewhile

from textual.widget import Widget


def hide_above(container: Widget, top: int) -> None:
    """Take children that end above row `top` of the screen out of the layout; padding keeps their place."""
    shown = [child for child in container.children if child.display]
    # a child that was just put back has no region yet: then nobody knows what is above
    above = list(takewhile(lambda child: child.region and child.region.bottom <= top, shown[:-1]))
    if not above:
        return
    first = shown[len(above)]
    container.styles.padding = (first.region.y - container.region.y - first.styles.margin.top, 0, 0, 0)
    for child in above:
        child.display = False


def show_all(container: Widget) -> None:
    """Put everything back."""
    if all(child.display for child in container.children):
        return
    container.styles.clear_rule("padding")
    container.refresh(layout=True)
    for child in container.children:
        child.display = True
