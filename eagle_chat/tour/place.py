"""Where one is in the tour: a chapter, a step of it, and maybe a round beside the one it shows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from eagle_chat.tour.chapters import Chapter, Step, chapters


@dataclass(frozen=True)
class Place:
    """Counts chapters from 1, as they are written, and steps from 0."""

    chapter: int = 1
    step: int = 0
    aside: int | None = None  # a round of the same reply that is looked at instead of the step's own

    @property
    def what(self) -> Chapter:
        """The chapter."""
        return chapters()[self.chapter - 1]

    @property
    def shown(self) -> Step:
        """The step; of a round aside nothing is pointed at."""
        step = self.what.steps[self.step]
        return step if self.aside is None else replace(step, round=self.aside, node=None, phase=None)

    @property
    def last_of_chapter(self) -> bool:
        """Whether there is something to try now."""
        return self.step == len(self.what.steps) - 1

    @property
    def at_end(self) -> bool:
        """Whether nothing comes after this."""
        return self.last_of_chapter and self.chapter == len(chapters())

    def text(self) -> str:
        """What the step says, also where another round is looked at."""
        return self.what.steps[self.step].text()

    def moved(self, steps: int) -> Place:
        """One step on or back, over the borders of chapters; at either end of the tour it stays."""
        every = [(number, i) for number, each in enumerate(chapters(), 1) for i in range(len(each.steps))]
        at = every.index((self.chapter, self.step)) + steps
        return Place(*every[max(0, min(at, len(every) - 1))])

    def at_chapter(self, number: int) -> Place:
        """The beginning of a chapter, as far as there is one."""
        return Place(max(1, min(number, len(chapters()))))

    def looking(self, rounds: int) -> Place:
        """Some rounds on or back in the reply that is shown."""
        step = self.what.steps[self.step]
        last = step.replay.rounds - 1
        aside = max(0, min((step.round if self.aside is None else self.aside) + rounds, last))
        return replace(self, aside=None if aside == step.round else aside)
