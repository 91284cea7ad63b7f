"""What the gauge shows of a reply besides the reply's own numbers."""

from dataclasses import dataclass

from eagle_chat.calibration import Calibration
from eagle_chat.layout.speed import Reading
from eagle_chat.reply import Reply


@dataclass(frozen=True, slots=True)
class Figures:
    """Known to the app, at the moment of a frame."""

    context: int
    ui_share: float | None = None
    plain_speed: float | None = None  # tokens per second of plain decoding of the same prompt
    kv_token_bytes: int = 0  # of one token in the target's cache
    memory: int | None = None  # bytes of the whole process
    calibration: Calibration | None = None  # of the conversation so far

    def reading(self, reply: Reply, *, calibrated: bool) -> Reading:
        """All that the gauge shows, with the calibration where that is wanted."""
        cached = None
        if reply.prefill is not None:  # tokens in the conversation, and the longest it can get
            cached = reply.prefill.total + reply.statistics.new_tokens, self.context
        return Reading(
            reply.statistics,
            self.plain_speed,
            self.ui_share,
            cached,
            self.kv_token_bytes,
            self.memory,
            self.calibration if calibrated else None,
        )
