"""Whether the engine is to wait between rounds, and whether it does: our side of the worker's gate."""

from eagle_chat.frame_budget import FrameBudget
from eagle_chat.worker import Worker


class Pausing:
    """Lasts until it is toggled or the reply is over. The time that passes meanwhile counts nowhere."""

    def __init__(self, worker: Worker, budget: FrameBudget) -> None:
        self.wanted = False  # the engine is to wait after the round under way
        self.waiting = False  # it does
        self._worker = worker
        self._budget = budget

    def toggle(self) -> None:
        """Wait after the round under way, or go on."""
        if self.wanted:
            self.end()
        else:
            self.wanted = True
            self._worker.pause()

    def reached(self) -> None:
        """The engine says that it waits. It may have been let go on since."""
        self.waiting = self.wanted
        if self.waiting:
            self._budget.pause()

    def step(self) -> None:
        """One round more, then wait again."""
        if self.waiting:
            self._go_on()
            self._worker.step()

    def end(self) -> None:
        """Go on, or nothing runs any more."""
        self.wanted = False
        self._go_on()
        self._worker.go_on()

    def _go_on(self) -> None:
        if self.waiting:
            self.waiting = False
            self._budget.resume()
