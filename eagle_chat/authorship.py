"""Who wrote which part of a reply: the drafter at some depth, or the target itself. No widgets here."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eagle_chat.events import RoundDone


@dataclass(frozen=True, slots=True)
class Written:
    """One token of a reply: the characters that it completed, and where it came from."""

    text: str  # empty for special tokens and for parts of a character
    token: bytes
    round: int
    depth: int | None  # in the draft tree; None: the target's own

    def words(self) -> str:
        """Where it came from, as a phrase."""
        if self.round == 0:
            return "round 0 (prefill), the model's own"
        who = "the model's own" if self.depth is None else f"drafted, depth {self.depth}"
        return f"round {self.round}, {who}"


def written_by(rounds: Sequence[RoundDone]) -> Iterator[Written]:
    """Every token, in order; their texts together are the text of the rounds."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for done in rounds:
        yield from _of_round(done, decoder)


def _of_round(done: RoundDone, decoder: codecs.IncrementalDecoder) -> Iterator[Written]:
    """Tokens whose text the round does not have are special, or lost the space before the first word."""
    record, left = done.record, done.text
    for index, token in enumerate(record.texts):
        text = decoder.decode(token)
        if not left.startswith(text):
            text = text.removeprefix(" ")
        if index == len(record.texts) - 1:
            text = left
        elif not left.startswith(text):
            text = ""
        left = left[len(text) :]
        yield Written(text, token, record.index, None if index == record.bonus else index + 1)
