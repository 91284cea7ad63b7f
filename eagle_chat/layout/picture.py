"""All that a panel of some size shows of one round: heading, tree, words below; and where its nodes stand."""

from dataclasses import dataclass
from typing import Literal

from eagle_chat.layout import dendrogram, explain, ladder, telling
from eagle_chat.layout.cells import Cell
from eagle_chat.layout.rows import Row, heading, legend
from eagle_chat.phases import Phase, Sight, sight
from eagle_chat.records import RoundRecord

WITH_HEADING, WITH_LEGEND = 3, 6  # rows of the panel from which there is one
LEAST_TREE = 2  # rows that stay when a node is explained


@dataclass(frozen=True, slots=True)
class Picture:
    """One round in one view and size; in a phase, with what is there by then and nothing else."""

    record: RoundRecord
    view: Literal["ladder", "dendrogram"]
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
        """The tree and its notes."""
        if self.view == "ladder":
            return ladder.layout(self.record, self.width, self.ascii_only, self._sight)
        return dendrogram.layout(self.record, self.width, self._tree_height, self.ascii_only, self._sight)

    def cells(self) -> list[Cell]:
        """Where the nodes stand in the rows of the tree."""
        if self.view == "ladder":
            return ladder.cells(self.record, self.width, self.ascii_only, self._sight)
        return dendrogram.cells(self.record, self.width, self._tree_height, self.ascii_only, self._sight)

    def columns(self) -> int:
        """What the tree takes at least; 0 where it fits any width."""
        return 0 if self.view == "ladder" else dendrogram.width_needed(self.record)

    def legend(self) -> list[Row]:
        """What the glyphs mean, where there is a row for it."""
        return [legend(self.width, self.ascii_only)] if self.height >= WITH_LEGEND else []

    def words(self, node: int | None, taken: int) -> list[Row]:
        """The round or a node in words for those who look closer; `taken` rows are the tree's."""
        last = self.legend()
        free = self.height - (self.height >= WITH_HEADING) - taken
        about_round = self._about_round()
        if node is None:
            return [*about_round, *last] if free >= len(about_round) + len(last) else about_round or last
        rows = explain.inspected(self.record, node, self.width, self.ascii_only, self._sight)
        rows = rows[: max(1, self.height - (self.height >= WITH_HEADING) - LEAST_TREE)]
        if free >= len(rows) + len(about_round) + len(last):
            return [*about_round, *rows, *last]
        return [*rows, *last] if free >= len(rows) + len(last) else rows

    def _about_round(self) -> list[Row]:
        """What happens in this phase; without one, what the round gave."""
        if self.phase is not None:
            return telling.rows(self.record, self.phase, self.width, self.ascii_only)
        line = explain.round_line(self.record, self.width, self.ascii_only)
        return [line] if line else []

    @property
    def _sight(self) -> Sight:
        return sight(self.phase)

    @property
    def _tree_height(self) -> int:
        """Rows for the tree. More words below cover its end rather than move it."""
        return self.height - (self.height >= WITH_HEADING) - (self.height >= WITH_LEGEND)
