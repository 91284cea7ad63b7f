"""A text of paragraphs, wrapped at spaces alone."""

from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from eagle_chat.layout.explain import wrapped


class Prose(Widget):
    """Like a Static, whose lines however also break at a no-break space, so that a `%` may begin one."""

    text: reactive[str] = reactive("", layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many rows as there are lines."""
        return len(self._lines(width))

    def render(self) -> Content:
        """The lines at the present width."""
        return Content("\n".join(self._lines(self.content_size.width)))

    def _lines(self, width: int) -> list[str]:
        return [line for paragraph in self.text.split("\n") for line in wrapped(paragraph, width)]
