"""The numbers on screen and in summaries, each defined once.

tau                 (new tokens - 1) / rounds: committed tokens per target forward, the prefill's token
excluded tokens per second   (new tokens - 1) / decode time, on the engine's clock; prefill apart accepted by
depth   of the rounds whose tree had a node at depth d, the share that accepted one there
"""

from collections import deque

from eagle_chat.records import RoundRecord

RECENT_MS = 1500.0  # the span that "now" covers


class ReplyStatistics:
    """Running figures of one reply, fed with its rounds in order (round 0 is the prefill)."""

    def __init__(self) -> None:
        self.new_tokens = 0
        self.rounds = 0
        self.prefill_ms = 0.0
        self.draft_ms = 0.0
        self.verify_ms = 0.0
        self.other_ms = 0.0
        self.accepted_history: list[int] = []  # one entry a round
        self._offered: list[int] = []  # rounds whose tree had a node at depth 1, 2, …
        self._accepted: list[int] = []  # of those, rounds that accepted one
        self._recent: deque[tuple[int, float]] = deque()  # (tokens, milliseconds)

    def add(self, record: RoundRecord) -> None:
        """Count one round."""
        self.new_tokens += len(record.new)
        if record.index == 0:
            self.prefill_ms = record.ms
            return
        self.rounds += 1
        self.draft_ms += record.draft_ms
        self.verify_ms += record.verify_ms
        self.other_ms += record.other_ms
        self.accepted_history.append(record.accepted)
        self._count_depths(max(record.tree.depths()), record.accepted)
        self._count_recent(len(record.new), record.ms)

    def _count_recent(self, tokens: int, ms: float) -> None:
        self._recent.append((tokens, ms))
        while len(self._recent) > 1 and sum(ms for _, ms in self._recent) > RECENT_MS:
            self._recent.popleft()

    def _count_depths(self, deepest: int, accepted: int) -> None:
        missing = deepest - len(self._offered)
        self._offered += [0] * missing
        self._accepted += [0] * missing
        for depth in range(deepest):
            self._offered[depth] += 1
            self._accepted[depth] += depth < accepted

    @property
    def decode_ms(self) -> float:
        """Engine time after the prefill, milliseconds."""
        return self.draft_ms + self.verify_ms + self.other_ms

    @property
    def tau(self) -> float | None:
        """Committed tokens per target forward; None before the first round."""
        return (self.new_tokens - 1) / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Mean over the reply; None before the first round."""
        return 1000 * (self.new_tokens - 1) / self.decode_ms if self.decode_ms > 0 else None

    @property
    def tokens_per_second_now(self) -> float | None:
        """Mean over about the last one and a half seconds of engine time."""
        ms = sum(ms for _, ms in self._recent)
        return 1000 * sum(tokens for tokens, _ in self._recent) / ms if ms > 0 else None

    @property
    def accepted_by_depth(self) -> list[float]:
        """Share of rounds that accepted a node at depth 1, 2, … among those whose tree had one there."""
        return [accepted / offered for accepted, offered in zip(self._accepted, self._offered, strict=True)]
