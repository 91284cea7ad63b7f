"""Saved conversations: one file each, of JSON lines that are only ever added to.

Files rather than one database, because a chat is written little by little while its speed is measured: adding
a line costs some ten microseconds, and takes no lock that another app could hold. What was handed to the
system outlives a killed process, a damaged file costs one conversation and not all, and the text can be read
without this program. Listing reads every file: a thousand of three long turns each take about a second.

Line 1 is the header: `format`, `version`, `created`. A `session` line says which model answers from there
on, and how. A `turn` line begins a turn: its number, the prompt, method and seed; it replaces the turn of
that number and all that follow. `text` lines add to the newest reply; `end` holds the reply's summary,
`failed` why there is none. A reply without either was cut off when the program ended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import platformdirs

from eagle_chat.errors import EagleChatError, UsageError

FORMAT = "eagle-chat-conversation"
VERSION = 1
DATA_VARIABLE = "EAGLE_CHAT_DATA_DIR"
LAST = "last"  # instead of an id: the one that was written to last
TITLE_LENGTH = 60  # characters
UNTITLED = "(empty)"

Line = dict[str, Any]


class _DamagedError(ValueError):
    """A file that is no conversation; says where it is wrong."""


class _NewerError(ValueError):
    """A file of a later version of this program."""


def now() -> str:
    """The time, as it is written."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass
class SavedTurn:
    """A prompt and what came of it."""

    prompt: str
    method: str
    seed: int
    at: str  # when it was sent
    session: Line  # who answers
    reply: str = ""
    end: Line | None = None  # the reply's summary, without its text
    problem: str | None = None  # why there is no summary
    ended: str = ""  # when

    @property
    def cut_off(self) -> bool:
        """The program ended before the reply did."""
        return self.end is None and self.problem is None


@dataclass
class SavedConversation:
    """What is said, as its lines tell it."""

    id: str
    created: str = field(default_factory=now)
    updated: str = ""
    session: Line = field(default_factory=dict)
    turns: list[SavedTurn] = field(default_factory=list)
    size: int | None = None  # bytes of its file; None where that does not end with a whole line

    @property
    def title(self) -> str:
        """The first words of the first prompt."""
        words = " ".join(self.turns[0].prompt.split()) if self.turns else ""
        if len(words) > TITLE_LENGTH:
            beginning = words[: TITLE_LENGTH - 1]
            words = (beginning.rpartition(" ")[0] or beginning) + "…"
        return words or UNTITLED

    @property
    def model(self) -> str:
        """Who answered last, as the user named it."""
        return str(self.session.get("model", ""))

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return self.session.get("system")

    @property
    def unanswered(self) -> str | None:
        """The last prompt, where it got no word of reply."""
        return self.turns[-1].prompt if self.turns and not self.turns[-1].reply else None

    def messages(self) -> list[dict[str, str]]:
        """As chat templates take them; prompts without a reply are left out: two in a row fit none."""
        system = [("system", self.system)] if self.system else []
        said = [
            pair
            for turn in self.turns
            if turn.reply
            for pair in (("user", turn.prompt), ("assistant", turn.reply))
        ]
        return [{"role": role, "content": content} for role, content in [*system, *said]]

    def matches(self, text: str) -> bool:
        """Whether every word of `text` is somewhere in it."""
        said = [self.id, self.model, *(part for turn in self.turns for part in (turn.prompt, turn.reply))]
        whole = "\n".join(said).casefold()
        return all(word in whole for word in text.casefold().split())

    def add(self, line: Line) -> None:
        """Do what a line says. Raises ValueError where it cannot be."""
        if "at" in line:
            self.updated = str(line["at"])
        match line:
            case {"text": str(text)} if self.turns:
                self.turns[-1].reply += text
            case {"session": dict(session)}:
                self.session = session
            case {"turn": int(number), "prompt": str(prompt), "method": str(method), "seed": int(seed)}:
                if not 0 <= number <= len(self.turns):
                    raise ValueError
                turn = SavedTurn(prompt, method, seed, self.updated, self.session)
                self.turns[number:] = [turn]
            case {"end": dict(end)} if self.turns:
                self.turns[-1].end, self.turns[-1].ended = end, self.updated
            case {"failed": str(problem)} if self.turns:
                self.turns[-1].problem, self.turns[-1].ended = problem, self.updated
            case _:
                raise ValueError

    def lines(self) -> list[Line]:
        """All of it, for a file of its own."""
        lines: list[Line] = [{"format": FORMAT, "version": VERSION, "created": self.created}]
        session: Line = {}
        for number, turn in enumerate(self.turns):
            if turn.session != session:
                session = turn.session
                lines.append({"session": session})
            lines.append(turn_line(number, turn.prompt, turn.method, turn.seed, turn.at))
            if turn.reply:
                lines.append({"text": turn.reply})
            if turn.problem is not None:
                lines.append({"failed": turn.problem, "at": turn.ended})
            elif turn.end is not None:
                lines.append({"end": turn.end, "at": turn.ended})
        return lines


def when(at: str) -> str:
    """A time as it is shown: here, to the minute."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return at


def turn_line(number: int, prompt: str, method: str, seed: int, at: str) -> Line:
    """The line that begins a turn."""
    return {"turn": number, "at": at, "method": method, "seed": seed, "prompt": prompt}


def as_bytes(lines: Iterable[Line]) -> bytes:
    """Lines as they are written."""
    # a lone surrogate, out of a damaged paste, is no text: it must not cost the rest
    dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return "".join(dump(line) + "\n" for line in lines).encode(errors="replace")


class Library:
    """The folder of all conversations: the user's data folder, or that of EAGLE_CHAT_DATA_DIR.

    What cannot be read is told in sentences, and never destroyed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        given = os.environ.get(DATA_VARIABLE)
        data = Path(given) if given else platformdirs.user_data_path("eagle-chat")
        self.folder = folder or data / "conversations"

    def path(self, identifier: str) -> Path:
        """Where a conversation lies."""
        return self.folder / f"{identifier}.jsonl"

    def all(self) -> tuple[list[SavedConversation], list[str]]:
        """Newest first; and what is wrong with those that are missing."""
        found, problems = [], []
        for identifier in self._identifiers():
            try:
                found.append(self.read(identifier))
            except FileNotFoundError:  # deleted elsewhere, just now
                continue
            except EagleChatError as error:
                problems.append(str(error))
        return sorted(found, key=lambda each: each.updated, reverse=True), problems

    def find(self, text: str) -> SavedConversation:
        """By its id, the beginning of that, or `last`. Raises EagleChatError or UsageError."""
        if text == LAST:
            found, _ = self.all()
            if not found:
                raise UsageError(f"there is no saved conversation yet in {self.folder}")
            return found[0]
        fitting = [each for each in self._identifiers() if each.startswith(text)]
        if len(fitting) != 1 or not text:
            what = "is the beginning of several ids" if fitting else "is no conversation's id"
            raise UsageError(f'"{text}" {what}: `eagle-chat chats` lists them')
        return self.read(fitting[0])

    def delete(self, identifier: str) -> None:
        """For good. Raises EagleChatError."""
        try:
            self.path(identifier).unlink(missing_ok=True)
        except OSError as error:
            raise EagleChatError(
                f"the conversation {identifier} cannot be deleted ({error.strerror}): "
                f"look at the rights of {self.folder}"
            ) from None

    def read(self, identifier: str) -> SavedConversation:
        """One of them. What is damaged is set aside. Raises EagleChatError, FileNotFoundError."""
        path = self.path(identifier)
        try:
            return _parse(identifier, path.read_bytes())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise EagleChatError(
                f"the conversation {identifier} cannot be read ({error.strerror}): look at the rights of "
                f"{path}"
            ) from None
        except _NewerError:
            raise EagleChatError(
                f"the conversation {identifier} was written by a newer eagle-chat: update this one to read it"
            ) from None
        except _DamagedError as error:
            raise EagleChatError(self._set_aside(path, str(error))) from None

    def _identifiers(self) -> list[str]:
        return [path.stem for path in self.folder.glob("*.jsonl")]

    def _set_aside(self, path: Path, where: str) -> str:
        aside = path.with_suffix(".damaged")
        try:
            path.replace(aside)
        except OSError:
            return f"the conversation {path.stem} is damaged ({where}) and is left out: see {path}"
        return f"the conversation {path.stem} is damaged ({where}): it was set aside as {aside}"


def _parse(identifier: str, data: bytes) -> SavedConversation:
    """A last line without its end was being written when the program was killed, or is at this moment."""
    whole, _, torn = data.rpartition(b"\n")
    first, *rest = _values(whole.split(b"\n"))
    if first.get("format") != FORMAT or not isinstance(first.get("version"), int):
        raise _DamagedError("line 1")
    if first["version"] > VERSION:
        raise _NewerError
    created = str(first.get("created", ""))
    conversation = SavedConversation(identifier, created, created, size=None if torn else len(data))
    for number, line in enumerate(rest, start=2):
        try:
            conversation.add(line)
        except ValueError:
            raise _DamagedError(f"line {number}") from None
    return conversation


def _values(lines: list[bytes]) -> list[Line]:
    """The object of each line; an empty one where there is none."""
    values = _value(b"[%s]" % b",".join(lines))  # three times as fast as line by line
    if values is None or len(values) != len(lines):
        values = [_value(line) for line in lines]
    return [value if isinstance(value, dict) else {} for value in values]


def _value(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
