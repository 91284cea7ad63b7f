"""A conversation as the screen knows it: prompts with their replies, and the versions it had before edits."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagle_chat.choices import DEFAULTS, Choices

if TYPE_CHECKING:
    from eagle_chat.reply import Reply


@dataclass(frozen=True)
class Turn:
    """A prompt and what was replied: enough to go on after it, run it again and compare."""

    prompt: str
    text: str
    seed: int = 0
    choices: Choices = DEFAULTS
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Entry:
    """A prompt as it was sent, and its reply once that begins."""

    prompt: str
    reply: Reply | None = None

    @property
    def turn(self) -> Turn | None:
        """What the model sees of it: nothing where there is no text or something failed."""
        reply = self.reply
        if reply is None or not reply.is_turn:
            return None
        return Turn(self.prompt, reply.text, reply.seed, reply.choices, reply.summary)


class Conversation:
    """What is said, and a ring of earlier versions that an edit has left behind."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.versions: deque[list[Entry]] = deque()

    @property
    def newest(self) -> Reply | None:
        """The last reply, maybe still under way."""
        return next((entry.reply for entry in reversed(self.entries) if entry.reply), None)

    @property
    def turns(self) -> list[Turn]:
        """What a session needs to go on from here."""
        return [turn for entry in self.entries if (turn := entry.turn)]

    def sent(self, prompt: str) -> None:
        """A prompt goes to the engine."""
        self.entries.append(Entry(prompt))

    def begins(self, reply: Reply) -> None:
        """A reply to the last prompt begins, maybe in place of an earlier one."""
        if not self.entries:
            self.sent(reply.prompt)
        self.entries[-1].reply = reply

    def branch(self, index: int) -> None:
        """Forget the entry `index` and all that follow; what it was is kept as a version."""
        self.versions.append(self.entries)
        self.entries = self.entries[:index]

    def next_version(self) -> bool:
        """Go to the version that was left last, and by and by to all of them. False where there is none."""
        if not self.versions:
            return False
        self.versions.appendleft(self.entries)
        self.entries = self.versions.pop()
        return True

    def clear(self) -> None:
        """A new conversation, without versions."""
        self.entries = []
        self.versions.clear()
