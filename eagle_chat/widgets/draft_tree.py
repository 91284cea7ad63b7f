"""The draft tree of one round, painted line by line; what stands where is decided in `eagle_chat.layout`."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size, Spacing
from textual.reactive import reactive, var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from eagle_chat.authorship import Written
from eagle_chat.layout import dendrogram
from eagle_chat.layout.cells import Cell, cell_at, next_node
from eagle_chat.layout.picture import VIEWS, Picture, View, fits
from eagle_chat.layout.rows import ROLES, Row, row_text
from eagle_chat.layout.states import own_token
from eagle_chat.phases import Phase
from eagle_chat.records import RoundRecord
from eagle_chat.rewinding import Rewinding
from eagle_chat.widgets.draft_tree_look import LOOK, PREFIX
from eagle_chat.widgets.drawn_rows import DrawnRows

NARROW = 60  # columns from which "auto" draws the dendrogram, if its levels are readable
LOW = 8  # rows of tree that it takes
EMPTY = "the draft tree of each round appears here"


class DraftTreeView(ScrollView, can_focus=True):
    """Shows a round's draft tree: a heading, the tree, below it words. Only the tree scrolls.

    A node can be selected and explained, and earlier rounds of a reply that is followed can be looked at.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {PREFIX + role for role in ROLES}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "cycle_view", "view", id="draft_tree.view",
                tooltip="of the tree: automatic, ladder, dendrogram, icicle, outline"),
        Binding("up,k", "select(-1)", "node", id="draft_tree.up", key_display="↑↓",
                tooltip="select a node and read why it ended as it did; or click it"),
        Binding("down,j", "select(1)", "node", id="draft_tree.down", show=False,
                tooltip="select a node and read why it ended as it did; or click it"),
        Binding("left,less_than_sign", "step(-1)", "round", id="draft_tree.earlier", key_display="←→",
                tooltip="an earlier round of the newest reply; decoding goes on"),
        Binding("right,greater_than_sign", "step(1)", "round", id="draft_tree.later", show=False,
                tooltip="the next round; after the last one the tree is live again"),
        Binding("left_square_bracket", "step(-10)", "ten rounds back", id="draft_tree.ten_earlier",
                show=False),
        Binding("right_square_bracket", "step(10)", "ten rounds on", id="draft_tree.ten_later", show=False),
        Binding("home", "first", "first round", id="draft_tree.first", show=False),
        Binding("escape,end", "live", "live", id="draft_tree.live", key_display="esc",
                tooltip="the newest round, no node selected"),
    ]  # fmt: skip
    DEFAULT_CSS = LOOK

    view: reactive[View | Literal["auto"]] = reactive("auto")
    ascii_only: var[bool] = var(False)

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.set_reactive(DraftTreeView.ascii_only, ascii_only)
        self.record: RoundRecord | None = None
        self.phase: Phase | None = None
        self._deepest = 0
        self.node: int | None = None  # selected, numbered as in `layout.cells`
        self._pointed: int | None = None  # the mouse is over it
        self._rewinding = Rewinding()
        self._picture: Picture | None = None
        self._cells: list[Cell] | None = None  # made when a node is pointed at
        self._drawn = DrawnRows(self, PREFIX)
        self._instead: Callable[[int, int, bool], list[Row]] | None = None

    def show_instead(self, draw: Callable[[int, int, bool], list[Row]]) -> None:
        """Where there is no tree to see, draw this: rows for a width, a height and maybe ASCII only."""
        self._instead = draw
        self._arrange()

    def show(self, record: RoundRecord | None, phase: Phase | None = None) -> None:
        """Draw this round; in a phase as much of it as there was by then."""
        self._rewinding = Rewinding()
        self._draw_round(record, phase)

    def point_at(self, node: int | None) -> None:
        """Select a node of the round that is drawn, numbered as in `layout.cells`, or nothing."""
        self._select(node)

    def follow(self, rounds: Sequence[RoundRecord]) -> None:
        """Draw the newest of a reply's rounds, unless one is held. Call again as they grow."""
        if self._rewinding.follow(rounds) or not self._rewinding.held:
            self._draw_round(self._rewinding.record, self._rewinding.phase)
        else:
            self._count_on()

    def look_at(self, rounds: Sequence[RoundRecord], token: Written) -> None:
        """Hold the round that wrote a token of a reply, with its node selected."""
        self._rewinding.follow(rounds)
        self._rewinding.go_to(token.round)
        self._moved()
        record = rounds[token.round]
        self._select(own_token(record) if token.depth is None else record.path[token.depth])

    def _draw_round(self, record: RoundRecord | None, phase: Phase | None = None) -> None:
        if record is not self.record:
            self.node = self._pointed = None
            if record is None or self.record is None:
                self.call_after_refresh(self.refresh_bindings)
        self.record = record
        self.phase = phase
        # the deepest tree so far decides between the views, or they would alternate from round to round
        self._deepest = (
            0 if record is None else max(self._deepest, *record.tree.depths(), len(record.tree.drawn))
        )
        self._arrange()

    @property
    def shown_view(self) -> View:
        """The view in use, whatever `view` leaves open."""
        if self.view != "auto":
            return self.view
        width, height = self.size
        roomy = width >= NARROW and height - 2 >= LOW
        return "dendrogram" if roomy and dendrogram.readable(self._deepest, width) else "ladder"

    def text(self) -> str:
        """The whole picture as plain text."""
        drawn = self._drawn
        return "\n".join(row_text(row).rstrip() for row in (drawn.heading, *drawn.rows, *drawn.foot) if row)

    def action_cycle_view(self) -> None:
        """Go to the next view that can be read at this size; after the last one it is automatic again."""
        past = 0 if self.view == "auto" else VIEWS.index(self.view) + 1
        self.view = next((v for v in VIEWS[past:] if fits(v, self._deepest, self.size.width)), "auto")

    def action_select(self, step: int) -> None:
        """Select the next node as one reads, or the one before."""
        self._select(next_node(self._picture_cells(), self.node, step))

    def action_step(self, rounds: int) -> None:
        """Look at an earlier or a later round."""
        if self._rewinding.step(rounds):
            self._moved()

    def action_first(self) -> None:
        """Look at the prefill."""
        if self._rewinding.go_to(0):
            self._moved()

    def action_live(self) -> None:
        """Back to the newest round, with nothing selected."""
        self.node = None
        self._rewinding.release()
        self._moved()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what does something now; other keys are for the screen."""
        if action == "live":
            return self._rewinding.following and (self._rewinding.held or self.node is not None)
        if action == "select":
            return self.record is not None
        return self._rewinding.following or action not in ("step", "first")

    def on_click(self, event: events.Click) -> None:
        """Select what stands there, or nothing."""
        place = event.get_content_offset(self)
        if place is not None and self.record is not None:
            self._select(None if self._in_foot(place) else self._node_at(place))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Explain what the mouse is over, without selecting it."""
        place = event.get_content_offset(self)
        if place is not None and self.record is not None and not self._in_foot(place):
            self._point_at(self._node_at(place))

    def on_leave(self) -> None:
        """The mouse is elsewhere."""
        self._point_at(None)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._arrange()

    def watch_view(self) -> None:
        self._arrange()
        self._show_selected()

    def on_mount(self) -> None:
        self.ascii_only = self.ascii_only or getattr(self.app, "ascii_only", False)

    def watch_ascii_only(self) -> None:
        self._arrange()

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()
        self._show_selected()

    def notify_style_update(self) -> None:
        self._drawn.restyle()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        return self._drawn.line(y, self.size, self.scroll_offset, self._selected_cell())

    def _in_foot(self, place: Offset) -> bool:
        return place.y >= self.size.height - len(self._drawn.foot)

    def _node_at(self, place: Offset) -> int | None:
        x, y = place + self.scroll_offset - (0, self._drawn.above)
        cell = cell_at(self._picture_cells(), y, x)
        return cell.node if cell else None

    def _point_at(self, node: int | None) -> None:
        if node != self._pointed:
            self._pointed = node
            self._arrange()

    def _select(self, node: int | None) -> None:
        """Mark a node and stay at its round: while a reply runs, the next one comes in a moment."""
        self.node = node
        if node is not None:
            self._rewinding.hold()
        self._arrange()
        self.refresh_bindings()
        self._show_selected()

    def _show_selected(self) -> None:
        """Scroll to the selected node."""
        if cell := self._selected_cell():
            above = self._drawn.above
            region = Region(cell.x, cell.row + above, cell.width, 1)
            spacing = Spacing(above, 0, len(self._drawn.foot), 0)
            # by force: its bar may not be there yet
            self.scroll_to_region(region, spacing=spacing, animate=False, force=True)

    def _moved(self) -> None:
        """Another round is looked at because somebody wants to."""
        self._draw_round(self._rewinding.record or self.record, self._rewinding.phase)
        self.refresh_bindings()

    def _picture_cells(self) -> list[Cell]:
        """Where the nodes stand."""
        if self._cells is None and self._picture is not None:
            self._cells = self._picture.cells()
        return self._cells or []

    def _selected_cell(self) -> Cell | None:
        if self.node is None:
            return None
        return next((cell for cell in self._picture_cells() if cell.node == self.node), None)

    def _arrange(self) -> None:
        """Lay the record out for the present size; nothing to do while hidden."""
        width, height = self.size
        if not width or not height:
            return
        self._picture = self._cells = None
        if self.record is None:
            nothing: list[Row] = [[(f" {EMPTY}", "label")]]
            rows = self._instead(width, height, self.ascii_only) if self._instead else nothing
            self._drawn.replace(rows)
            self._scroll_over(Size(0, len(rows)))
        else:
            picture = Picture(self.record, self.shown_view, width, height, self.ascii_only, self.phase)
            self._draw(picture)
        self.refresh()

    def _draw(self, picture: Picture) -> None:
        self._picture = picture
        rows = picture.tree()
        node = self.node if self._pointed is None else self._pointed
        closer = self.has_focus or self._rewinding.held or node is not None or self.phase is not None
        foot = picture.words(node, rows) if closer else picture.legend(rows)
        self._drawn.replace(rows, picture.heading(self._rewinding.newest), foot)
        needed = picture.columns()
        height = len(rows) + self._drawn.fixed
        self._scroll_over(Size(needed if needed > picture.width else 0, height))

    def _scroll_over(self, needed: Size) -> None:
        """A picture that fits is as high as the view: every other height would mean a new layout."""
        self.virtual_size = Size(needed.width, max(needed.height, self.container_size.height))

    def _count_on(self) -> None:
        """Only the heading of a round that is held changes while more of them come."""
        if self._picture is not None:
            self._drawn.head(self._picture.heading(self._rewinding.newest))
            self.refresh()
