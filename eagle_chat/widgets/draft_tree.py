"""The draft tree of one round, painted line by line; what stands where is decided in `eagle_chat.layout`."""

from typing import ClassVar, Literal

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import reactive, var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from eagle_chat.layout import dendrogram, ladder
from eagle_chat.layout.rows import ROLES, Row, heading, legend, row_text
from eagle_chat.records import RoundRecord
from eagle_chat.widgets.painting import role_styles, to_strip

View = Literal["auto", "ladder", "dendrogram"]
VIEWS: tuple[View, ...] = ("auto", "ladder", "dendrogram")

NARROW = 60  # columns from which "auto" draws the dendrogram, if its levels are readable
LOW = 8  # rows of tree that it takes
EMPTY = "the draft tree of each round appears here"
PREFIX = "draft-tree--"


class DraftTreeView(ScrollView, can_focus=True):
    """Shows a round's draft tree: a heading, the tree, a legend. Only the tree scrolls."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {PREFIX + role for role in ROLES}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "t", "cycle_view", "Tree view", id="draft_tree.view", tooltip="Automatic, ladder, dendrogram"
        ),
    ]
    DEFAULT_CSS = """
    DraftTreeView {
        height: 1fr;
        scrollbar-size: 1 1;
        overflow: auto auto;

        & > .draft-tree--root { color: $tree-root; text-style: bold; }
        & > .draft-tree--accepted { color: $tree-accepted; text-style: bold; }
        & > .draft-tree--bonus { color: $tree-bonus; text-style: bold underline; }
        & > .draft-tree--rejected { color: $tree-rejected; }
        & > .draft-tree--unreachable { color: $tree-unreachable; }
        & > .draft-tree--dropped { color: $tree-dropped; text-style: italic; }
        & > .draft-tree--pending { color: $tree-pending; }
        & > .draft-tree--edge { color: $tree-edge; }
        & > .draft-tree--edge-accepted { color: $tree-accepted; }
        & > .draft-tree--score { color: $tree-score; }
        & > .draft-tree--label { color: $tree-unreachable; }
        & > .draft-tree--heading { color: $tree-score; }
        &:focus > .draft-tree--heading { color: $tree-accepted; text-style: bold; }

        &:nocolor > .draft-tree--unreachable { text-style: dim; }
        &:nocolor > .draft-tree--dropped { text-style: dim italic; }
        &:nocolor > .draft-tree--edge { text-style: dim; }
        &:nocolor > .draft-tree--label { text-style: dim; }
        &:nocolor > .draft-tree--edge-accepted { text-style: bold; }
    }
    """

    view: reactive[View] = reactive("auto")
    ascii_only: var[bool] = var(False)

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.set_reactive(DraftTreeView.ascii_only, ascii_only)
        self.record: RoundRecord | None = None
        self.verified = True
        self._deepest = 0
        self._rows: list[Row] = []
        self._heading: Row = []
        self._legend: Row = []
        self._strips: dict[int, Strip] = {}
        self._styles: dict[str, Style] = {}

    def show(self, record: RoundRecord | None, verified: bool = True) -> None:
        """Draw this round; with `verified` False as it was before the target's verdict."""
        self.record = record
        self.verified = verified
        # the deepest tree so far decides between the views, or they would alternate from round to round
        self._deepest = (
            0 if record is None else max(self._deepest, *record.tree.depths(), len(record.tree.drawn))
        )
        self._arrange()

    @property
    def shown_view(self) -> Literal["ladder", "dendrogram"]:
        """The view in use, whatever `view` leaves open."""
        if self.view != "auto":
            return self.view
        width, height = self.size
        roomy = width >= NARROW and height - 2 >= LOW
        return "dendrogram" if roomy and dendrogram.readable(self._deepest, width) else "ladder"

    def text(self) -> str:
        """The whole picture as plain text."""
        return "\n".join(row_text(row).rstrip() for row in (self._heading, *self._rows, self._legend) if row)

    def action_cycle_view(self) -> None:
        """Go to the next view."""
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]

    def watch_view(self) -> None:
        self._arrange()

    def watch_ascii_only(self) -> None:
        self._arrange()

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()

    def notify_style_update(self) -> None:
        self._styles.clear()
        self._strips.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        if not self._styles:
            self._styles = role_styles(self, PREFIX, ROLES)
        width, height = self.size
        above, below = bool(self._heading), bool(self._legend)
        if above and y == 0:
            return self._fixed(-1, self._heading, width)
        if below and y == height - 1:
            return self._fixed(-2, self._legend, width)
        x, top = self.scroll_offset
        index = y - above + top
        if not 0 <= index < len(self._rows):
            return Strip.blank(width, self.rich_style)
        if index not in self._strips:
            self._strips[index] = to_strip(self._rows[index], self._styles)
        return self._strips[index].crop_extend(x, x + width, self.rich_style)

    def _fixed(self, key: int, row: Row, width: int) -> Strip:
        if key not in self._strips:
            self._strips[key] = to_strip(row, self._styles)
        return self._strips[key].crop_extend(0, width, self.rich_style)

    def _arrange(self) -> None:
        """Lay the record out for the present size; nothing to do while hidden."""
        width, height = self.size
        if not width or not height:
            return
        self._strips.clear()
        self._heading, self._legend, self._rows = [], [], []
        needed = 0
        if self.record is None:
            self._rows = [[(f" {EMPTY}", "label")]]
        else:
            needed = self._draw(self.record, width, height)
        fixed = bool(self._heading) + bool(self._legend)
        self.virtual_size = Size(needed if needed > width else 0, len(self._rows) + fixed)
        self.refresh()

    def _draw(self, record: RoundRecord, width: int, height: int) -> int:
        """Fill heading, tree and legend; returns the columns that the tree takes at least."""
        if height >= 3:
            self._heading = heading(record, width, self.ascii_only, self.verified)
        if height >= 6:
            self._legend = legend(width, self.ascii_only)
        if self.shown_view == "ladder":
            self._rows = ladder.layout(record, width, self.ascii_only, self.verified)
            return 0
        rows = height - bool(self._heading) - bool(self._legend)
        self._rows = dendrogram.layout(record, width, rows, self.ascii_only, self.verified)
        return dendrogram.width_needed(record)
