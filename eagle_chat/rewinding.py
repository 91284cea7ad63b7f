"""Which round of a reply is looked at, and which phase of it: the newest, or an earlier one meanwhile."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from eagle_chat.notable import why_notable
from eagle_chat.phases import Phase, phases
from eagle_chat.records import RoundRecord


class Rewinding:
    """A place in the rounds of one reply. It follows the newest round until it is held or moved."""

    def __init__(self) -> None:
        self._rounds: Sequence[RoundRecord] = ()
        self._at = -1  # the round looked at
        self._held = False
        self._phase: int | None = None  # walked to, of the round looked at
        self._walks_on = False  # the next round is to be walked from its first phase

    def follow(self, rounds: Sequence[RoundRecord]) -> bool:
        """Take note of the rounds so far, which grow; whether another round is looked at now.

        A reply's first call lets go of what was held in the one before.
        """
        if rounds is not self._rounds:
            self._rounds, self._at, self._phase = rounds, -1, None
            self._held = self._walks_on = False
        if self._walks_on and self._at < len(rounds) - 1:
            self._enter(self._at + 1, 0)
            return True
        return not self._held and self._move(len(rounds) - 1)

    def step(self, rounds: int) -> bool:
        """Some rounds back or forth; beyond the last one it follows again. Whether that moved it."""
        return self.go_to(self._at + rounds)

    def go_to(self, at: int) -> bool:
        """To a round, as far as there are any; at the last one it follows again. Whether that moved it."""
        last = len(self._rounds) - 1
        at = min(max(at, 0), last)
        self._walks_on = False
        if at == self._at and self._phase is None:
            return False
        self._held = at < last
        return self._move(at)

    def go_to_time(self, ms: float) -> bool:
        """To the round that was under way after so many milliseconds of engine time."""
        return self.go_to(bisect_left(list(accumulate(record.ms for record in self._rounds)), ms))

    def notable(self, way: int) -> bool:
        """To the next round worth a look (`way` 1) or the one before (-1). Whether there is one."""
        for at in range(self._at + way, len(self._rounds) if way > 0 else 0, way):
            if why_notable(self._rounds[at], self._rounds[at - 1]):
                return self.go_to(at)
        return False

    def step_phase(self, way: int) -> bool:
        """One phase on or back, from its end or its beginning into the next round. Whether that moved it.

        A round that is there as a whole is walked from its first phase, and back from its last but one.
        """
        if self.record is None:
            return False
        steps = len(phases(self.record))
        place = -1 if way > 0 else steps - 1
        to = (place if self._phase is None else self._phase) + way
        if 0 <= to < steps:
            self._enter(self._at, to)
            return True
        at = self._at + way
        if not 0 <= at < len(self._rounds):
            return False
        self._enter(at, 0 if way > 0 else len(phases(self._rounds[at])) - 1)
        return True

    def walk_on(self) -> None:
        """Walk the next round that comes from its first phase."""
        self._walks_on = True

    def hold(self) -> None:
        """Stay here, whatever comes."""
        self._held = True

    def release(self) -> bool:
        """Follow the newest round again. Whether that moved it."""
        self._held = self._walks_on = False
        return self._move(len(self._rounds) - 1)

    @property
    def rounds(self) -> Sequence[RoundRecord]:
        """All rounds so far."""
        return self._rounds

    @property
    def record(self) -> RoundRecord | None:
        """The round looked at; none before the first, or where no reply is followed."""
        return self._rounds[self._at] if self._at >= 0 else None

    @property
    def phase(self) -> Phase | None:
        """The phase walked to; without one the round is there as a whole."""
        return None if self._phase is None or self.record is None else phases(self.record)[self._phase]

    @property
    def is_in_newest(self) -> bool:
        """Whether the newest round is being walked, and is not over yet."""
        walked = self._phase is not None and self._at == len(self._rounds) - 1
        return walked and self._phase != len(phases(self._rounds[self._at])) - 1

    @property
    def at_newest(self) -> bool:
        """Whether only a round that has not come yet lies ahead."""
        return self.following and self._at == len(self._rounds) - 1

    @property
    def newest(self) -> int | None:
        """Index of the newest round, where an earlier one is looked at."""
        behind = (
            self._held and self._at < len(self._rounds) - 1
        )  # following may lag too: that is no rewinding
        return self._rounds[-1].index if behind else None

    @property
    def held(self) -> bool:
        """Whether a new round would not be shown."""
        return self._held

    @property
    def following(self) -> bool:
        """Whether there is a reply whose rounds can be looked at."""
        return bool(self._rounds)

    def _enter(self, at: int, phase: int) -> None:
        self._held, self._walks_on = True, False
        self._at, self._phase = at, phase

    def _move(self, at: int) -> bool:
        moved = at != self._at or self._phase is not None
        self._at, self._phase = at, None
        return moved
