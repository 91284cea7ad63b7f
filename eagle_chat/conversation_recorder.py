"""Saves a conversation while it grows, from the events that pass between engine and screen.

It works in the engine's thread, between two rounds: what is on screen is on disk, and the engine's clock does
not run. Measured on a busy 2-core CPU: 15 to 20 µs a round, where a round takes 20 ms.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

from eagle_chat.conversations import Library, Line, SavedConversation, as_bytes, now, turn_line
from eagle_chat.events import Arrived, Event, Failed, Finished, RoundDone, SessionInfo, Started

_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"  # none that is easily taken for another
_ID_LENGTH = 6
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would write other line ends, and so other lengths


class Recorder:
    """Keeps the conversation on screen, and its file where it `saves`. Used by one thread at a time.

    Nobody is kept from writing: every addition first looks whether the file is as long as we left it. If it
    is not, another app goes on with the same conversation, and we go on in a file of our own.
    """

    def __init__(self, library: Library, *, saves: bool = True, given: Collection[str] = ()) -> None:
        self.library = library
        self.saves = saves
        self.conversation: SavedConversation | None = None  # as it is on screen
        self.given = given  # of the choices: on the command line, so that no saved conversation changes them
        self._length: int | None = None  # of our file; None where there is none we could add to
        self._gone = False  # deleted by somebody: they do not want it saved
        self._told = False  # that nothing can be written
        self._beside = False  # a run for a comparison: no part of the conversation
        self._held: list[Line] = []  # the beginning of a turn that replaces a reply, until there is another

    def take(self, event: Event, info: SessionInfo) -> str | None:
        """Record an event; a sentence where something is no longer saved."""
        match event:
            case Started():
                self._beside = event.again
                return None if event.again else self._begin(event, info)
            case _ if self._beside or self.conversation is None:
                return None
            case RoundDone(text=text) | Arrived(text=text) if text:
                return self._write({"text": text})
            case Finished(text, summary) if text or not self._held:
                end = {key: value for key, value in summary.items() if key != "text"}
                return self._write({"end": end, "at": now()})
            case Failed(message) if self.conversation.turns and self.conversation.turns[-1].cut_off:
                return self._write({"failed": message, "at": now()})
        return None

    def leave(self) -> None:
        """What comes next is another conversation."""
        self.conversation = self._length = None
        self._held, self._gone = [], False

    def resume(self, conversation: SavedConversation, info: SessionInfo) -> str | None:
        """What comes next belongs to `conversation`; a sentence where another model goes on with it."""
        self.leave()
        self.conversation, self._length = conversation, conversation.size
        before = conversation.session
        if before.get("weights_sha256") in (None, info.weights_sha256):
            return None
        return f"This conversation was held with {conversation.model}; {info.model} goes on with it."

    def _begin(self, event: Started, info: SessionInfo) -> str | None:
        if self.conversation is None:
            self.conversation = SavedConversation(_new_id())
        messages = [each for each in event.messages if each["role"] != "system"]
        system = next((each["content"] for each in event.messages if each["role"] == "system"), None)
        number, lines = self._agree(messages[:-1])
        session = {key: value for key, value in asdict(info).items() if key != "notes"}
        session |= {"system": system, "choices": asdict(event.choices)}
        if session != self.conversation.session:
            lines.insert(0, {"session": session})
        lines.append(turn_line(number, event.prompt, event.method, event.seed, now()))
        turns = self.conversation.turns
        self._held = lines if number < len(turns) and turns[number].end and turns[number].reply else []
        return None if self._held else self._write(*lines)

    def _agree(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, list[Line]]:
        """The number of the turn that follows `messages`; lines for what we do not know of them."""
        assert self.conversation is not None
        said = [(turn.prompt, turn.reply) for turn in self.conversation.turns]
        wanted = [
            (one["content"], two["content"]) for one, two in zip(messages[::2], messages[1::2], strict=False)
        ]
        same = 0
        while same < min(len(said), len(wanted)) and said[same] == wanted[same]:
            same += 1
        lines: list[Line] = []
        for number, (prompt, reply) in enumerate(wanted[same:], start=same):
            lines += [turn_line(number, prompt, "", 0, now()), {"text": reply}, {"end": {}}]
        return len(wanted), lines

    def _write(self, *lines: Line) -> str | None:
        assert self.conversation is not None
        lines, self._held = (*self._held, *lines), []
        for line in lines:
            self.conversation.add(line)
        tries = self._length is not None or any("turn" in line or "end" in line for line in lines)
        if not self.saves or self._gone or not tries:
            return None
        try:
            note = self._append(as_bytes(lines), self._length)
        except FileNotFoundError:
            self._gone = True
            return "This conversation was deleted elsewhere: what follows is not saved."
        except OSError as error:
            return self._failed(error)
        self._told = False
        return note

    def _append(self, data: bytes, length: int | None) -> str | None:
        assert self.conversation is not None
        if length is None:
            self._write_all()
            return None
        file = os.open(self.library.path(self.conversation.id), os.O_WRONLY | os.O_APPEND | _BINARY)
        try:
            ours = os.fstat(file).st_size == length
            if ours:
                _write_whole(file, data)
        finally:
            os.close(file)
        if not ours:
            self._write_all()
            return f"Another eagle-chat goes on here as well: this one is saved as {self.conversation.id}."
        self._length = length + len(data)
        return None

    def _write_all(self) -> None:
        """All that was said, to a file of its own."""
        assert self.conversation is not None
        self.library.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.conversation.id = _new_id()
        path, data = self.library.path(self.conversation.id), as_bytes(self.conversation.lines())
        new = path.with_suffix(".new")  # whoever lists meanwhile must not see half a file
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        try:
            try:
                _write_whole(file, data)
            finally:
                os.close(file)
            new.rename(path)
        except OSError:
            new.unlink()
            raise
        self._length = len(data)

    def _failed(self, error: OSError) -> str | None:
        """The end of the reply and the next prompt try again; it is said once."""
        self._length = None
        if self._told:
            return None
        self._told = True
        reason = error.strerror or type(error).__name__
        return f"This chat goes on, but is not saved: {reason} ({self.library.folder})."


def _new_id() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_ID_LENGTH))


def _write_whole(file: int, data: bytes) -> None:
    """A full disk takes a part without a word."""
    if os.write(file, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
