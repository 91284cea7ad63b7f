"""Who wrote each piece of a reply: the drafter at some depth, or the target itself."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eagle_chat.events import RoundDone


@dataclass(frozen=True, slots=True)
class Piece:
    """The text that one token completed; empty for special tokens and for parts of a character."""

    text: str
    round: int
    token: bytes
    depth: int | None  # in the draft tree; None: the target's own token


def pieces(rounds: Sequence[RoundDone]) -> Iterator[Piece]:
    """A piece for every token, in order; their texts together are the text of the rounds."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for done in rounds:
        yield from _of_round(done, decoder)


def _of_round(done: RoundDone, decoder: codecs.IncrementalDecoder) -> Iterator[Piece]:
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
        yield Piece(text, record.index, token, None if index == record.bonus else index + 1)
