"""One reply as the screen knows it: its text so far, its numbers, its rounds. No widgets here."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from eagle_chat.comparison import Difference
from eagle_chat.events import (
    SERVER,
    Arrived,
    Event,
    Finished,
    Prefill,
    RoundDone,
    ServerSays,
    SessionInfo,
    Started,
)
from eagle_chat.records import RoundRecord
from eagle_chat.server.statistics import ServerStatistics
from eagle_chat.statistics import ReplyStatistics
from eagle_chat.summary import HOW_IT_ENDED, STOPPED_BY_USER, figures


class Reply:
    """Fed with the events of one reply, in order."""

    def __init__(self, started: Started, info: SessionInfo | None = None) -> None:
        """`info` is what decodes it, where that is in this process and now."""
        self.info = info
        self.prompt = started.prompt
        self.method = started.method
        self.seed = started.seed
        self.choices = started.choices
        self.prefill: Prefill | None = None
        self.rounds: list[RoundRecord] = []  # the prefill, then one after the other
        self.server = ServerStatistics() if started.method == SERVER else None  # decoded elsewhere, unseen
        self.statistics = self.server or ReplyStatistics()
        self.summary: Mapping[str, Any] = {}
        self.difference: Difference | None = None  # of a run again: where it parts from the earlier one
        self.plain_speed: float | None = None  # tokens per second of plain decoding of the same prompt
        self.problem: str | None = None  # why it failed
        self.over = False
        self._texts: list[str] = []
        self._lengths: list[int] = []  # characters after each round
        self._clock: list[float] = []  # engine milliseconds after each round

    def add(self, event: Prefill | RoundDone | Arrived | ServerSays | Finished) -> None:
        """Take the next event."""
        match event:
            case Prefill():
                self.prefill = event
            case RoundDone(record, text):
                self.rounds.append(record)
                self.statistics.add(record)
                self._texts.append(text)
                self._lengths.append((self._lengths[-1] if self._lengths else 0) + len(text))
                self._clock.append(self.ms + record.ms)
            case Arrived(text) if self.server is not None:
                self.server.arrived(event)
                self._texts.append(text)
            case ServerSays() if self.server is not None:
                self.server.says(event)
            case Finished(text, summary, difference=difference):
                self._texts = [text]
                self.summary, self.difference = summary, difference
                self.over = True

    def fail(self, problem: str) -> None:
        """It ended with an error; what there is stays."""
        self.problem = problem
        self.over = True

    @property
    def newest(self) -> RoundRecord | None:
        """The last round so far."""
        return self.rounds[-1] if self.rounds else None

    @property
    def text(self) -> str:
        """All text so far."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""

    @property
    def ms(self) -> float:
        """Engine time so far, prefill included."""
        return self._clock[-1] if self._clock else 0.0

    @property
    def decode_ms(self) -> float:
        """Engine time since the prompt was read."""
        return self.ms - self.statistics.prefill_ms

    @property
    def is_turn(self) -> bool:
        """Whether it has become part of the conversation: it came to an end, with some text."""
        return self.over and self.problem is None and bool(self.text)

    @property
    def stopped(self) -> bool:
        """Whether the user ended it."""
        return self.summary.get("stopped_by") == STOPPED_BY_USER

    def rounds_done(self) -> list[RoundDone]:
        """The rounds, each with the text it completed."""
        starts = [0, *self._lengths[:-1]]
        ends = [*self._lengths[:-1], None]  # the last one has what is left
        whole = self.text
        return [
            RoundDone(record, whole[start:end])
            for record, start, end in zip(self.rounds, starts, ends, strict=False)  # of no rounds none
        ]

    def events(self) -> Iterator[Event]:
        """What it was fed with, as far as a trace keeps it."""
        yield Started(self.prompt, self.method, self.seed)
        if self.prefill is not None:
            yield self.prefill
        yield from self.rounds_done()
        if self.summary:
            yield Finished(self.text, dict(self.summary))

    def text_at(self, ms: float) -> str:
        """The text that was there after `ms` of engine time: a recorded run beside one that is under way."""
        if ms >= self.ms:
            return self.text
        rounds = bisect_right(self._clock, ms)
        return self.text[: self._lengths[rounds - 1]] if rounds else ""

    def place_of(self, token: int) -> tuple[int, int]:
        """Where a token of a finished reply stands in its text; at the end where it is none, or missing."""
        pieces = [piece for record in self.rounds for piece in record.texts]
        begins = [len(b"".join(pieces[:count]).decode(errors="ignore")) for count in (token, token + 1)]
        # tokenizers that put a space before the text do not show it
        hidden = int(bool(pieces) and pieces[0].startswith(b" ") and not self.text.startswith(" "))
        begin, end = (min(max(0, place - hidden), len(self.text)) for place in begins)
        return begin, end

    def footer(self) -> str:
        """One line of numbers, also of a reply without a summary."""
        numbers = self.statistics
        uncounted = self.server is not None and not numbers.new_tokens
        tokens = None if uncounted else numbers.new_tokens
        line = figures(tokens, numbers.tokens_per_second, numbers.tau, self.method, self.seed)
        end = None if self.stopped else HOW_IT_ENDED.get(self.summary.get("stopped_by", ""))
        return f"{line} · {end}" if end else line
