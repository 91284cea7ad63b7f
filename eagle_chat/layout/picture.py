"""All that a panel of some size shows of one round: heading, tree, words below; and where its nodes stand."""

from dataclasses import dataclass
from typing import Literal

from eagle_chat.layout import (
    contenders,
    dendrogram,
    explain,
    icicle,
    ladder,
    outline_view,
    selection_table,
    telling,
)
from eagle_chat.layout.cells import Cell
from eagle_chat.layout.rows import Row, has_scores, heading, legend
from eagle_chat.phases import Phase, Sight, sight
from eagle_chat.records import RoundRecord

View = Literal["ladder", "dendrogram", "icicle", "outline"]
VIEWS: tuple[View, ...] = ("ladder", "dendrogram", "icicle", "outline")
SCROLLED = {"ladder": ladder, "icicle": icicle, "outline": outline_view}  # as high as they come out

ICICLE_WIDTH = 60  # columns below which most of its nodes are counts
OUTLINE_WIDTH = 40  # columns below which its words are cut

WITH_HEADING, WITH_LEGEND = 3, 6  # rows of the panel from which there is one
WORDS = 5  # rows kept free below the table of what was drawn and kept
LEAST_TREE = 2  # rows that stay when a node is explained


def fits(view: View, deepest: int, width: int) -> bool:
    """Whether a view of trees this deep can be read in `width` columns. All of them scroll up and down."""
    match view:
        case "dendrogram":
            return dendrogram.pitch(deepest, width) >= dendrogram.NARROWEST
        case "icicle":
            return width >= ICICLE_WIDTH
        case "outline":
            return width >= OUTLINE_WIDTH
    return True


@dataclass(frozen=True, slots=True)
class Picture:
    """One round in one view and size; in a phase, with what is there by then and nothing else."""

    record: RoundRecord
    view: View
    width: int
    height: int
    ascii_only: bool
    phase: Phase | None = None

    def heading(self, newest: int | None) -> Row:
        """Its first row; `newest` where the view is rewound."""
        if self.height < WITH_HEADING:
            return []
        if self.phase is not None:
            return telling.heading(self.record, self.phase, newest, self.width, self.ascii_only)
        return heading(self.record, self.width, self.ascii_only, newest)

    def tree(self) -> list[Row]:
        """The tree and its notes, and where there is room the table of what was drawn and kept."""
        if self.view == "dendrogram":
            rows = dendrogram.layout(self.record, self.width, self._tree_height, self.ascii_only, self._sight)
        else:
            rows = SCROLLED[self.view].layout(self.record, self.width, self.ascii_only, self._sight)
        below = selection_table.table(self.record, self.width)
        blank: list[Row] = [[]]
        if not self._sight.dropped:  # nothing is chosen yet: its place is kept free
            below = blank * len(below)
        if below and len(rows) + 1 + len(below) + WORDS <= self._tree_height:
            return [*rows, *blank, *below]
        return rows

    def cells(self) -> list[Cell]:
        """Where the nodes stand in the rows of the tree."""
        if self.view == "dendrogram":
            return dendrogram.cells(self.record, self.width, self._tree_height, self.ascii_only, self._sight)
        return SCROLLED[self.view].cells(self.record, self.width, self.ascii_only, self._sight)

    def columns(self) -> int:
        """What the tree takes at least; 0 where it fits any width."""
        return dendrogram.width_needed(self.record) if self.view == "dendrogram" else 0

    def legend(self, tree: list[Row]) -> list[Row]:
        """What glyphs and numbers of a `tree` mean, where it has them and there is a row for it."""
        if self.height < WITH_LEGEND:
            return []
        return [legend(self.width, self.ascii_only, numbers=any(map(has_scores, tree)))]

    def words(self, node: int | None, tree: list[Row]) -> list[Row]:
        """The round or a node in words for those who look closer, in the room that the `tree` leaves."""
        last = self.legend(tree)
        free = self.height - (self.height >= WITH_HEADING) - len(tree)
        about_round = self._about_round()
        if self.phase is None and free < len(about_round) + len(last):
            about_round = about_round[:1]
        if node is None:
            return [*about_round, *last] if free >= len(about_round) + len(last) else about_round or last
        rows = explain.inspected(self.record, node, self.width, self.ascii_only, self._sight)
        rows = rows[: max(1, self.height - (self.height >= WITH_HEADING) - LEAST_TREE)]
        room = free - len(rows) - len(about_round) - len(last) - 1
        against = contenders.table(self.record, node, self.width, room, self.ascii_only, self._sight)
        if against:
            return [*against, [], *about_round, *rows, *last]
        if free >= len(rows) + len(about_round) + len(last):
            return [*about_round, *rows, *last]
        return [*rows, *last] if free >= len(rows) + len(last) else rows

    def _about_round(self) -> list[Row]:
        """What happens in this phase; without one, what was expected and what came of it."""
        if self.phase is not None:
            return telling.rows(self.record, self.phase, self.width, self.ascii_only)
        lines = (explain.round_line, explain.chain_line)  # and whether a tree was needed for that
        return [row for line in lines if (row := line(self.record, self.width, self.ascii_only))]

    @property
    def _sight(self) -> Sight:
        return sight(self.phase)

    @property
    def _tree_height(self) -> int:
        """Rows for the tree. More words below cover its end rather than move it."""
        return self.height - (self.height >= WITH_HEADING) - (self.height >= WITH_LEGEND)
