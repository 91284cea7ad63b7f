"""How often to paint while the engine works: painting takes the interpreter from it."""

import time
from collections.abc import Callable

SHARE = 0.02  # of the wall clock that painting may take; the engine's threads lose about twice that
FIRST_COST = 0.0075  # seconds a frame is taken to cost before one was measured: four frames a second
SMOOTHING = 0.3  # weight of the newest frame in the estimate
SHORTEST = 0.1  # seconds between frames
TEXT_SHORTEST, TEXT_LONGEST = 0.125, 1.3  # seconds between additions to the text
PICTURE_LONGEST = 2.6  # seconds between pictures (tree and gauge); next to the text they are cheap


class FrameBudget:
    """Keeps account of the CPU time of the thread that calls it; a frame is due when it can be afforded."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._cost = FIRST_COST
        self._began = self._began_cpu = self._frame_cpu = 0.0
        self._last_text = self._last_picture = 0.0
        self._running = False
        self._first = False
        self._paused: tuple[float, float] | None = None  # clock and CPU time when it began to wait
        self.share: float | None = None  # of the reply that runs or ran last

    def start(self) -> None:
        """A reply begins."""
        self._running = self._first = True
        self._paused = None
        self._began = self._last_text = self._last_picture = self._clock()
        self._began_cpu = self._cpu()
        self.share = None

    def stop(self) -> None:
        """The reply is over: paint freely."""
        self._running, self._paused = False, None

    def pause(self) -> None:
        """The engine waits: paint freely, and let neither this time nor its painting count."""
        if self._running:
            self._running = False
            self._paused = self._clock(), self._cpu()

    def resume(self) -> None:
        """The engine goes on."""
        if self._paused is not None:
            (since, since_cpu), self._paused = self._paused, None
            self._running = True
            self._began += self._clock() - since
            self._began_cpu += self._cpu() - since_cpu
            self._frame_cpu += self._cpu() - since_cpu

    def text_due(self) -> bool:
        """Whether to add text now: when affordable, and every 1.3 seconds whatever it costs."""
        return self._due(self._last_text, TEXT_SHORTEST, TEXT_LONGEST)

    def picture_due(self) -> bool:
        """Whether to paint the tree and the gauge now."""
        return self._due(self._last_picture, SHORTEST, PICTURE_LONGEST)

    def painted(self, *, text: bool, picture: bool) -> None:
        """Something was painted. What was spent since the frame before is what a frame costs."""
        now, cpu = self._clock(), self._cpu()
        self._last_text = now if text else self._last_text
        self._last_picture = now if picture else self._last_picture
        if not self._running:
            return
        if self._first:  # new widgets and other keys in the footer: once, while the prompt is read
            self._first = False
            self._began, self._began_cpu = now, cpu
        else:
            self._cost += SMOOTHING * (cpu - self._frame_cpu - self._cost)
            self.share = (cpu - self._began_cpu) / max(now - self._began, 1e-9)
        self._frame_cpu = cpu

    def _due(self, last: float, shortest: float, longest: float) -> bool:
        if not self._running:
            return True
        now = self._clock()
        affordable = self._first or self._cpu() - self._began_cpu + self._cost <= SHARE * (now - self._began)
        return now - last >= (shortest if affordable else longest)
