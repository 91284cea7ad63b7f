"""The tour: a few sentences, and the round they are about."""

from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from eagle_chat.screens.chapters import ChaptersScreen
from eagle_chat.screens.chat import SMALLEST
from eagle_chat.screens.steady import SteadyScreen
from eagle_chat.tour.chapters import chapters
from eagle_chat.tour.place import Place
from eagle_chat.visible import visible
from eagle_chat.widgets.draft_tree import DraftTreeView
from eagle_chat.widgets.fitting_footer import FittingFooter
from eagle_chat.widgets.prose import Prose

BEGIN = "Space goes on, ← goes back. ↓ and ↑ point at parts of the tree. c lists the chapters."
ASIDE = "a round beside the lesson's; esc goes back to it"
END = "That was the tour: `eagle-chat` shows your own replies being written. q leaves."


class TourScreen(SteadyScreen[None]):
    """Text above the tree, or beside it where there is room."""

    AUTO_FOCUS = "#tour-tree"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,enter,right,l", "move(1)", "step", id="tour.next", key_display="← →",
                tooltip="the next step, and after the last one the next chapter"),
        Binding("left,backspace,h", "move(-1)", "the step before", id="tour.back", show=False),
        Binding("n", "chapter(1)", "chapter", id="tour.next_chapter", key_display="n p",
                tooltip="the next chapter"),
        Binding("p,N", "chapter(-1)", "the chapter before", id="tour.previous_chapter", show=False),
        Binding("c", "chapters", "chapters", id="tour.chapters", show=False,
                tooltip="choose one from the list"),
        Binding("greater_than_sign", "look(1)", "rounds", id="tour.later", key_display="< >",
                tooltip="look at the next round of the recorded reply"),
        Binding("less_than_sign", "look(-1)", "the round before", id="tour.earlier", show=False),
        Binding("t", "cycle_view", "view", id="tour.view", tooltip="of the tree"),
        Binding("pagedown", "scroll_text(1)", "scroll the text", id="tour.scroll_down", show=False,
                priority=True),
        Binding("pageup", "scroll_text(-1)", "scroll the text", id="tour.scroll_up", show=False,
                priority=True),
        Binding("escape", "return", "back to the lesson", id="tour.return", show=False),
    ]  # fmt: skip

    def __init__(self, chapter: int = 1) -> None:
        super().__init__()
        self.place = Place(chapter)
        self.tree_view = DraftTreeView(id="tour-tree")
        self.tree_view.set_reactive(DraftTreeView.view, "dendrogram")  # the same before and after the verdict

    def compose(self) -> ComposeResult:
        """Title, text, what was written so far, tree, what to try."""
        yield Static("", id="tour-title")
        with Container(id="tour-page"):
            with VerticalScroll(id="tour-words", can_focus=False):
                yield Prose(id="tour-text")
            with Container(id="tour-round"):
                yield Static("", id="tour-written")
                yield self.tree_view
        yield Static("", id="tour-try", markup=False)
        yield FittingFooter(compact=True, show_command_palette=False)
        yield Static("", id="too-small", markup=False)

    def on_mount(self) -> None:
        """The first step."""
        self.call_after_refresh(self.paint)

    def on_resize(self) -> None:
        """Say what is missing when there is no room; what was written fits another width."""
        needed = "×".join(map(str, SMALLEST))
        text = f"the tour needs {needed} (now {self.size.width}×{self.size.height}); pipe it for plain text."
        self.query_one("#too-small", Static).update(text)
        self.call_after_refresh(self.paint)

    def paint(self) -> None:
        """Show the place."""
        place, step = self.place, self.place.shown
        self.query_one("#tour-title", Static).update(self._title())
        self.query_one(Prose).text = visible(place.text())
        self.query_one("#tour-written", Static).update(self._written())
        self.query_one("#tour-try", Static).update(self._below())
        self.tree_view.show(step.record, step.phase)
        self.tree_view.point_at(step.node)

    def action_move(self, steps: int) -> None:
        """To another step."""
        self._go(self.place.moved(steps))

    def action_chapter(self, chapters: int) -> None:
        """To the beginning of another chapter."""
        self._go(self.place.at_chapter(self.place.chapter + chapters))

    def action_chapters(self) -> None:
        """Choose one."""
        self.app.push_screen(ChaptersScreen(self.place.chapter), self._chosen)

    def action_look(self, rounds: int) -> None:
        """To another round, with the same words."""
        self.place = self.place.looking(rounds)
        self.paint()

    def action_return(self) -> None:
        """To the step's own round and node."""
        self._go(Place(self.place.chapter, self.place.step))

    def action_cycle_view(self) -> None:
        """Another view of the tree."""
        self.tree_view.action_cycle_view()

    def action_scroll_text(self, way: int) -> None:
        """Where the words need more room than there is."""
        self.query_one("#tour-words").scroll_relative(y=3 * way, animate=False)

    def _chosen(self, number: int | None) -> None:
        if number is not None:
            self._go(Place(number))

    def _go(self, place: Place) -> None:
        self.place = place
        self.query_one("#tour-words").scroll_home(animate=False)
        self.paint()

    def _title(self) -> Content:
        place, number = self.place, len(chapters())
        marks = "●" * place.chapter + "○" * (number - place.chapter)
        steps = f"step {place.step + 1} of {len(place.what.steps)}"
        return Content.assemble(
            ("eagle-chat tour", "bold $primary"),
            f"  {place.chapter}/{number}  ",
            (place.what.title, "bold"),
            f"  {marks}  ",
            (steps, "$text-muted"),
        )

    def _written(self) -> Content:
        """The end of the text, what the round wrote underlined."""
        frame = self.place.shown.frame
        text = visible(frame.text).replace("\n", "⏎").replace("\t", "⇥")
        fresh = text[len(text) - frame.fresh :] if frame.fresh and self.place.shown.phase is None else ""
        before = text[: len(text) - len(fresh)]
        room = max(0, self.query_one("#tour-written").content_size.width - cell_len(fresh) - 1)
        while cell_len(before) > room:
            before = before[1:]
        return Content.assemble(("…", "$text-muted"), (before, "$text-muted"), (fresh, "underline"))

    def _below(self) -> Content:
        if self.place.aside is not None:
            return Content.styled(ASIDE, "$text-warning")
        if not self.place.last_of_chapter:
            return Content.styled(BEGIN if self.place == Place() else "", "$text-muted")
        hint = Content.assemble(("Try  ", "bold $primary"), self.place.what.to_try)
        return Content("\n").join([hint, Content(END)]) if self.place.at_end else hint
