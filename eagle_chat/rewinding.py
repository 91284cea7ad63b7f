"""Which round of a reply is looked at: the newest, or an earlier one while decoding goes on."""

from collections.abc import Sequence

from eagle_chat.records import RoundRecord


class Rewinding:
    """A place in the rounds of one reply. It follows the newest round until it is held or moved."""

    def __init__(self) -> None:
        self._rounds: Sequence[RoundRecord] = ()
        self._at = -1  # the round looked at
        self._held = False

    def follow(self, rounds: Sequence[RoundRecord]) -> bool:
        """Take note of the rounds so far, which grow; whether another round is looked at now.

        A reply's first call lets go of what was held in the one before.
        """
        if rounds is not self._rounds:
            self._rounds, self._held, self._at = rounds, False, -1
        return not self._held and self._move(len(rounds) - 1)

    def step(self, rounds: int) -> bool:
        """Some rounds back or forth; beyond the last one it follows again. Whether that moved it."""
        last = len(self._rounds) - 1
        at = min(max(self._at + rounds, 0), last)
        if at == self._at:
            return False
        self._held = at < last
        return self._move(at)

    def hold(self) -> None:
        """Stay here, whatever comes."""
        self._held = True

    def release(self) -> bool:
        """Follow the newest round again. Whether that moved it."""
        self._held = False
        return self._move(len(self._rounds) - 1)

    @property
    def record(self) -> RoundRecord | None:
        """The round looked at; none before the first, or where no reply is followed."""
        return self._rounds[self._at] if self._at >= 0 else None

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

    def _move(self, at: int) -> bool:
        moved, self._at = at != self._at, at
        return moved
