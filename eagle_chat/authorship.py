"""Who wrote which part of a reply: the drafter at some depth, or the target itself. No widgets here."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eagle_chat.records import RoundRecord


@dataclass(frozen=True, slots=True)
class Written:
    """One token of a reply: the characters that it completed, and where it came from."""

    text: str
    round: int  # its place in the reply's rounds
    depth: int | None  # in the draft tree; None: the target's own

    def words(self) -> str:
        """The same as a phrase."""
        if self.round == 0:
            return "round 0 (prefill), the model's own"
        who = "the model's own" if self.depth is None else f"drafted, depth {self.depth}"
        return f"round {self.round}, {who}"


def written_by(rounds: Sequence[RoundRecord], text: str) -> list[Written]:
    """The tokens that are text, in order; together they are `text`.

    Tokens that show nothing are left out: special ones, and pieces of a character that a later one completes.
    """
    found: list[Written] = []
    at = 0
    for place, depth, piece in _pieces(rounds):
        # the first space of a reply is dropped by some tokenizers
        shown = next((each for each in (piece, piece.removeprefix(" ")) if text.startswith(each, at)), "")
        if shown:
            found.append(Written(shown, place, depth))
            at += len(shown)
    if at < len(text):
        last = found.pop() if found else Written("", 0, None)
        found.append(Written(last.text + text[at:], last.round, last.depth))
    return found


def _pieces(rounds: Sequence[RoundRecord]) -> Iterator[tuple[int, int | None, str]]:
    """Round, depth and completed characters of every token."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for place, record in enumerate(rounds):
        for order, data in enumerate(record.texts):
            yield place, None if order == record.bonus else order + 1, decoder.decode(data)
