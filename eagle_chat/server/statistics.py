"""The numbers of a reply that a server decodes: our clock, its counts."""

from eagle_chat.events import Arrived, ServerSays
from eagle_chat.records import Acceptance
from eagle_chat.statistics import ReplyStatistics


class ServerStatistics(ReplyStatistics):
    """Stands in for the figures of rounds: there are none to see, only pieces of text and when they came."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces = 0
        self.tokens_per_piece: list[int] = []  # where the server counts along
        self.acceptance: Acceptance | None = None
        self.over = False

    def arrived(self, event: Arrived) -> None:
        """Count one piece of text."""
        self.pieces += 1
        if event.tokens is not None:
            self.new_tokens += event.tokens
            self.tokens_per_piece.append(event.tokens)
        if self.pieces == 1:
            self.prefill_ms = event.ms
            return
        self.other_ms += event.ms
        if event.tokens is not None:
            self._count_recent(event.tokens, event.ms)

    def says(self, event: ServerSays) -> None:
        """The reply is over: the server's own count of its tokens, and what it accepted."""
        self.over = True
        self.acceptance = event.acceptance
        if event.new_tokens is not None:
            self.new_tokens = event.new_tokens

    @property
    def tokens_per_second(self) -> float | None:
        """From the first piece to the last; None while nobody has counted."""
        return super().tokens_per_second if self.new_tokens > 1 else None

    @property
    def tau(self) -> float | None:
        """As the server says, if it does."""
        return self.acceptance.tau if self.acceptance else None

    @property
    def accepted_by_depth(self) -> list[float]:
        """As the server says, if it does."""
        return list(self.acceptance.by_depth) if self.acceptance else []
