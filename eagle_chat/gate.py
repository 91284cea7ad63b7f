"""Holds the engine between two rounds, from another thread."""

import threading


class Gate:
    """Open at first. Closed, it lets through only as many rounds as it is told to."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rounds: int | None = None  # that may still begin; None: any number

    def close(self) -> None:
        """No round may begin."""
        self._let(0)

    def open(self) -> None:
        """Any number of rounds may begin."""
        self._let(None)

    def let_one(self) -> None:
        """One more round may begin."""
        with self._condition:
            self._rounds = (self._rounds or 0) + 1
            self._condition.notify_all()

    @property
    def closed(self) -> bool:
        """Whether the next round has to wait."""
        with self._condition:
            return self._rounds == 0

    def wait(self) -> None:
        """Before a round: returns when it may begin."""
        with self._condition:
            self._condition.wait_for(lambda: self._rounds != 0)
            if self._rounds is not None:
                self._rounds -= 1

    def _let(self, rounds: int | None) -> None:
        with self._condition:
            self._rounds = rounds
            self._condition.notify_all()
