"""What a benchmark found: medians of ratios between replies that were made side by side.

Nothing is decoded or printed here, and torch is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from eagle_chat.bootstrap import Interval, interval
from eagle_chat.comparison import find_difference
from eagle_chat.evaluation import mean
from eagle_chat.methods import NOT_SEED_EQUAL

PLAIN = "none"
TRANSFORMERS = "transformers"
TRANSFORMERS_PLD = "transformers-pld"
SAMPLED_OTHERWISE = (TRANSFORMERS, TRANSFORMERS_PLD, *NOT_SEED_EQUAL)
BASELINES = (PLAIN, TRANSFORMERS)


@dataclass(frozen=True, slots=True)
class Reply:
    """One method's reply to a prompt and how long it took."""

    tokens: tuple[int, ...]
    rounds: int  # target forwards after the prefill
    seconds: float  # of these rounds
    prefilled: int = 1  # tokens that came with the prefill: more than one where it verified drafts as well

    @property
    def decoded(self) -> int:
        """Tokens that the rounds committed: new tokens - 1, but for a prefill that gave more."""
        return max(0, len(self.tokens) - self.prefilled)

    @property
    def tokens_per_second(self) -> float | None:
        """None where no round was run."""
        return self.decoded / self.seconds if self.decoded and self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Fork:
    """The tokens, prompt included, after which a reply and plain decoding's part."""

    prefix: tuple[int, ...]
    temperature: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, and what every method replied, one right after the other."""

    task: str
    temperature: float
    prompt: tuple[int, ...]
    replies: Mapping[str, Reply]  # by method, in the order in which they were made

    def ratio(self, method: str, baseline: str) -> float | None:
        """How many times as fast as `baseline` the method was; None where one of them has no speed."""
        if baseline not in self.replies:
            return None
        speeds = [self.replies[name].tokens_per_second for name in (method, baseline)]
        return speeds[0] / speeds[1] if speeds[0] and speeds[1] else None

    def is_compared(self, method: str) -> bool:
        """Whether the text should be that of plain decoding.

        Sampling draws with other noise in transformers, and by the textbook's rule, so those texts are
        others by right.
        """
        return PLAIN in self.replies and not (self.temperature > 0 and method in SAMPLED_OTHERWISE)

    def fork(self, method: str) -> Fork | None:
        """Where the method's reply parts from plain decoding's; None where it is the same to the end."""
        if not self.is_compared(method):
            return None
        reply, plain = ({"tokens": self.replies[name].tokens} for name in (method, PLAIN))
        found = find_difference(reply, plain)
        if found is None:
            return None
        return Fork((*self.prompt, *plain["tokens"][: found.index]), self.temperature)


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one task at one temperature; the fields are the keys of `bench --json`."""

    method: str
    task: str
    temperature: float
    new_tokens: int  # of all replies
    rounds: int
    tau: float | None  # pooled: tokens of all rounds / rounds
    tokens_per_second: float | None  # median over the replies, like both ratios
    vs_plain: float | None
    vs_plain_interval: Interval | None  # that holds the median with 95 %, by bootstrap over the ratios
    vs_transformers: float | None
    vs_transformers_interval: Interval | None
    identical: bool | None  # to plain decoding, token for token; None where that says nothing
    differences: int | None  # replies that are not
    near_ties: int | None  # of these, replies that part at a near tie in fp32; None: nobody has looked
    replies: int


@dataclass
class Benchmark:
    """All that was asked so far."""

    methods: Sequence[str]
    asked: list[Asked] = field(default_factory=list)
    near_ties: dict[Fork, bool] = field(default_factory=dict)  # empty in fp32, where nothing may differ
    unexamined: frozenset[Fork] = frozenset()  # may be near ties: who measured had no time to see

    @property
    def temperatures(self) -> list[float]:
        """Those that were asked at, in order."""
        return list(dict.fromkeys(one.temperature for one in self.asked))

    def forks(self) -> Iterator[Fork]:
        """Where replies part from plain decoding's, each place once."""
        found = (one.fork(method) for one in self.asked for method in one.replies)
        yield from dict.fromkeys(fork for fork in found if fork is not None)

    def rows(self) -> list[Row]:
        """By temperature, then task, then method, each in the order given."""
        return [
            self._row(method, task, temperature, group)
            for temperature in self.temperatures
            for task, group in self._by_task(temperature).items()
            for method in self.methods
        ]

    def summary(self, temperature: float) -> dict[str, dict[str, Any]]:
        """By method, over all tasks: means of the tasks' figures, and medians over all replies."""
        everything = [one for one in self.asked if one.temperature == temperature]
        rows = [row for row in self.rows() if row.temperature == temperature]
        result = {}
        for method in self.methods:
            own = [row for row in rows if row.method == method]
            whole = self._row(method, "", temperature, everything)
            result[method] = {
                "tau": mean(row.tau for row in own),
                "tokens_per_second": mean(row.tokens_per_second for row in own),
                "vs_plain": mean(row.vs_plain for row in own),
                "vs_transformers": mean(row.vs_transformers for row in own),
                "median_tokens_per_second": whole.tokens_per_second,
                "median_vs_plain": whole.vs_plain,
                "median_vs_plain_interval": whole.vs_plain_interval,
                "median_vs_transformers": whole.vs_transformers,
                "median_vs_transformers_interval": whole.vs_transformers_interval,
                "new_tokens": whole.new_tokens,
                "rounds": whole.rounds,
                "identical": whole.identical,
                "differences": whole.differences,
                "near_ties": whole.near_ties,
                "replies": whole.replies,
            }
        return result

    def as_json(self) -> dict[str, Any]:
        """The keys `results` and `summary` of `bench --json`; the summary by temperature, then by method."""
        return {
            "results": [asdict(row) for row in self.rows()],
            "summary": {f"{temperature:g}": self.summary(temperature) for temperature in self.temperatures},
        }

    def _by_task(self, temperature: float) -> dict[str, list[Asked]]:
        groups: dict[str, list[Asked]] = {}
        for one in self.asked:
            if one.temperature == temperature:
                groups.setdefault(one.task, []).append(one)
        return groups

    def _row(self, method: str, task: str, temperature: float, group: Sequence[Asked]) -> Row:
        replies = [one.replies[method] for one in group]
        rounds = sum(reply.rounds for reply in replies)
        plain, transformers = (_known(one.ratio(method, name) for one in group) for name in BASELINES)
        compared = all(one.is_compared(method) for one in group)
        forks = [fork for fork in (one.fork(method) for one in group) if fork is not None]
        return Row(
            method=method,
            task=task,
            temperature=temperature,
            new_tokens=sum(len(reply.tokens) for reply in replies),
            rounds=rounds,
            tau=sum(reply.decoded for reply in replies) / rounds if rounds else None,
            tokens_per_second=_median(_known(reply.tokens_per_second for reply in replies)),
            vs_plain=_median(plain),
            vs_plain_interval=interval(plain) if method != PLAIN else None,
            vs_transformers=_median(transformers),
            vs_transformers_interval=interval(transformers) if method != TRANSFORMERS else None,
            identical=not forks if compared else None,
            differences=len(forks) if compared else None,
            near_ties=self._near_ties(forks) if compared else None,
            replies=len(replies),
        )

    def _near_ties(self, forks: Sequence[Fork]) -> int | None:
        if not self.unexamined.isdisjoint(forks):
            return None
        return sum(self.near_ties.get(fork, False) for fork in forks)


def _known(numbers: Iterator[float | None]) -> tuple[float, ...]:
    """Those that there are."""
    return tuple(number for number in numbers if number is not None)


def _median(numbers: Sequence[float]) -> float | None:
    return median(numbers) if numbers else None
