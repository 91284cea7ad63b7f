"""Replay: any moment of a recorded trace, and a player that moves through one trace or two on one clock.

A moment depends on the trace and its place alone, never on how one came there: going back is as exact as
going on. Nothing here knows of a terminal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import accumulate

from eagle_chat.notable import why_notable
from eagle_chat.phases import Phase, drafting, phases
from eagle_chat.records import RoundRecord
from eagle_chat.statistics import ReplyStatistics
from eagle_chat.summary import figures, one_line
from eagle_chat.trace import Trace

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
AS_RECORDED = 1.0
CUT_OFF = "✂ the recording was cut off here"
SEEN = 0.25  # seconds a round must take on screen for its tree to appear before its verdict
CHECKPOINT = 128  # rounds between figures that are kept, so that a late moment does not count from the start


@dataclass(frozen=True, slots=True)
class Frame:
    """A trace after some of its rounds."""

    done: int  # rounds that are over, the prefill among them
    text: str
    fresh: int  # characters at the end of `text` that the newest round wrote
    record: RoundRecord | None  # the newest round; None before the first
    statistics: ReplyStatistics
    notable: str | None  # why the newest round is worth a stop
    over: bool  # all that was recorded is there


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A round that is looked at in one of its phases."""

    record: RoundRecord
    phase: Phase


class Replay:
    """One trace, with at least one round."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.clock = tuple(accumulate(done.record.ms for done in trace.rounds))  # engine ms after each round
        records = [done.record for done in trace.rounds]
        before = [None, *records]
        self.notable = tuple(map(why_notable, records, before))  # of each round
        self.lessons = [""] * len(records)  # what the markers say of each round
        for marker in trace.markers:
            self.lessons[marker.round] = f"{self.lessons[marker.round]}\n{marker.text}".strip()
        self._text = "".join(done.text for done in trace.rounds)
        self._ends = (0, *accumulate(len(done.text) for done in trace.rounds))  # characters after n rounds
        self._checkpoints = self._count()

    @property
    def rounds(self) -> int:
        """How many were recorded, the prefill among them."""
        return len(self.clock)

    @property
    def ms(self) -> float:
        """Engine time of everything."""
        return self.clock[-1]

    def frame(self, done: int) -> Frame:
        """The state after the first `done` rounds, from nothing at 0 to everything at `rounds`."""
        if not 0 <= done <= self.rounds:
            raise IndexError(f"{done} of {self.rounds} rounds")
        over = done == self.rounds
        text, began = self._text[: self._ends[done]], self._ends[max(0, done - 1)]
        if over and self.trace.summary is not None:
            text = self.trace.summary["text"]  # also what a last, incomplete character became
        return Frame(
            done=done,
            text=text,
            fresh=max(0, len(text) - began),
            record=self.trace.rounds[done - 1].record if done else None,
            statistics=self._statistics(done),
            notable=self.notable[done - 1] if done else None,
            over=over,
        )

    def last_line(self) -> str:
        """The figures of the whole recording, and how it ended."""
        if self.trace.summary is not None:
            return one_line(self.trace.summary)
        numbers, header = self._statistics(self.rounds), self.trace.header
        speed, tau = numbers.tokens_per_second, numbers.tau
        return f"{figures(numbers.new_tokens, speed, tau, header['method'], header['seed'])} · {CUT_OFF}"

    def _count(self) -> list[ReplyStatistics]:
        running, kept = ReplyStatistics(), [ReplyStatistics()]
        for number, done in enumerate(self.trace.rounds, start=1):
            running.add(done.record)
            if number % CHECKPOINT == 0:
                kept.append(deepcopy(running))
        return kept

    def _statistics(self, done: int) -> ReplyStatistics:
        at = done // CHECKPOINT
        statistics = deepcopy(self._checkpoints[at])
        for each in self.trace.rounds[at * CHECKPOINT : done]:
            statistics.add(each.record)
        return statistics


@dataclass(frozen=True, slots=True)
class _Moment:
    """The end of a round on the common clock."""

    ms: float
    run: int
    done: int  # rounds of that run that are over then


class Player:
    """Where the replay is and how fast it goes. Every jump stops at the end of a round and pauses."""

    def __init__(
        self, replays: Sequence[Replay], *, speed: float = AS_RECORDED, playing: bool = True,
        pause_on_markers: bool = False,
    ) -> None:  # fmt: skip
        self.replays = tuple(replays)
        self.speed = speed
        self.playing = playing
        self.pause_on_markers = pause_on_markers
        self.ms = 0.0  # engine time
        self.place = 0  # moments that have passed
        self._phase: int | None = None  # walked to, of the round whose end is the place
        moments = [
            _Moment(ms, run, done)
            for run, replay in enumerate(self.replays)
            for done, ms in enumerate(replay.clock, start=1)
        ]
        self._moments = sorted(moments, key=lambda moment: (moment.ms, moment.run, moment.done))
        self._times = [moment.ms for moment in self._moments]

    @property
    def total_ms(self) -> float:
        """Engine time until all is over."""
        return self._times[-1]

    @property
    def over(self) -> bool:
        """Whether nothing is left to play."""
        return self.place == len(self._moments)

    def done(self, run: int = 0) -> int:
        """Rounds of a run that are over now."""
        passed = (each.done for each in reversed(self._moments[: self.place]) if each.run == run)
        return next(passed, 0)

    def frame(self, run: int = 0) -> Frame:
        """What a run shows now: what its rounds wrote that are over."""
        moment = self._moments[self.place - 1]
        last = self._steps(self.place) - 1
        unfinished = self._phase not in (None, last) and moment.run == run
        return self.replays[run].frame(self.done(run) - unfinished)

    def under_way(self, run: int = 0) -> UnderWay | None:
        """The round that a run is in the middle of: one that is walked, or the next one in slow motion."""
        if self._phase is not None:
            record = self._record(self.place)
            walked = run == self._moments[self.place - 1].run
            return UnderWay(record, phases(record)[self._phase]) if walked else None
        replay, done = self.replays[run], self.done(run)
        if not 0 < done < replay.rounds:
            return None
        record = replay.trace.rounds[done].record
        if len(record.tree.tokens) == 1 or record.ms / self.speed < 1000 * SEEN:
            return None
        # not in the first half of the round, or the verdict on the one before could not be read
        share = 2 * (self.ms - replay.clock[done - 1]) / record.ms - 1
        phase = drafting(record, share * record.ms / max(record.draft_ms, 1e-9))
        return None if share < 0 else UnderWay(record, phase)

    def advance(self, seconds: float) -> None:
        """Time goes by."""
        if not self.playing:
            return
        self._phase = None
        self.ms = min(self.total_ms, self.ms + 1000 * seconds * self.speed)
        reached = max(self.place, bisect_right(self._times, self.ms))
        marked = (place for place in range(self.place + 1, reached + 1) if self._lesson(place))
        if self.pause_on_markers and (stop := next(marked, None)):
            self._go(stop)
            return
        self.place = reached
        self.playing = not self.over

    def toggle(self) -> None:
        """Pause, or play on; at the end, from the start."""
        if not self.playing and self.over:
            self._go(0)
        self.playing = not self.playing

    def step(self, rounds: int) -> None:
        """So many rounds on, or back."""
        self._go(self.place + rounds)

    def step_phase(self, way: int) -> None:
        """One phase on or back; a round that is over is walked from its beginning, and back from its end."""
        self.playing = False
        if self._phase is None and not self.over:
            ahead = self.under_way(self._moments[self.place].run)
            if ahead is not None:  # slow motion was in the middle of that round
                self._go(self.place + 1)
                self._phase = phases(ahead.record).index(ahead.phase)
        steps = self._steps(self.place)
        now = (-1 if way > 0 else steps - 1) if self._phase is None else self._phase
        if 0 <= now + way < steps:
            self._phase = now + way
        elif 0 < self.place + way <= len(self._moments):
            self._go(self.place + way)
            self._phase = 0 if way > 0 else self._steps(self.place) - 1
        elif way < 0:
            self._go(0)

    def _steps(self, place: int) -> int:
        """Phases of the round that ends there."""
        return len(phases(self._record(place))) if place else 0

    def _record(self, place: int) -> RoundRecord:
        moment = self._moments[place - 1]
        return self.replays[moment.run].trace.rounds[moment.done - 1].record

    def first(self) -> None:
        """To the start, before anything was there."""
        self._go(0)

    def last(self) -> None:
        """To the end."""
        self._go(len(self._moments))

    def go_to_round(self, number: int) -> None:
        """To the end of a round of the first run, as far as there are any; 0 is the prefill."""
        wanted = max(0, min(number, self.replays[0].rounds - 1)) + 1
        self._go(1 + next(i for i, each in enumerate(self._moments) if (each.run, each.done) == (0, wanted)))

    def go_to_time(self, ms: float) -> None:
        """To what was there after so many milliseconds."""
        self.playing, self._phase = False, None
        self.ms = max(0.0, min(ms, self.total_ms))
        self.place = bisect_right(self._times, self.ms)

    def notable(self, way: int) -> bool:
        """To the next notable round (`way` 1) or the one before (-1); False where there is none."""
        return self._find(self._is_notable, way)

    def marker(self, way: int) -> bool:
        """To the next round with a marker, or the one before; False where there is none."""
        return self._find(lambda place: bool(self._lesson(place)), way)

    @property
    def has_markers(self) -> bool:
        """Whether this is a lesson."""
        return any(replay.trace.markers for replay in self.replays)

    @property
    def lesson(self) -> str:
        """What the markers say of the newest round; empty where there are none."""
        return self._lesson(self.place)

    def change_speed(self, steps: int) -> None:
        """Faster or slower, within `SPEEDS`."""
        at = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.speed))
        self.speed = SPEEDS[max(0, min(at + steps, len(SPEEDS) - 1))]

    def _find(self, is_wanted: Callable[[int], bool], way: int) -> bool:
        places = range(self.place + way, len(self._moments) + 1 if way > 0 else 0, way)
        found = next(filter(is_wanted, places), None)
        if found is not None:
            self._go(found)
        return found is not None

    def _lesson(self, place: int) -> str:
        moment = self._moments[place - 1]
        return self.replays[moment.run].lessons[moment.done - 1] if place else ""

    def _is_notable(self, place: int) -> bool:
        moment = self._moments[place - 1]
        return place > 0 and self.replays[moment.run].notable[moment.done - 1] is not None

    def _go(self, place: int) -> None:
        self.playing, self._phase = False, None
        self.place = max(0, min(place, len(self._moments)))
        self.ms = self._times[self.place - 1] if self.place else 0.0
