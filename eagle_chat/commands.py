"""Slash commands: how they are read, completed and run; `shared_commands` and `chat_commands` hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from eagle_chat.errors import UsageError

_COMMAND = re.compile(r"/(?P<name>\S*)\s*(?P<argument>.*)", re.DOTALL)


def _nothing(_chat: Any) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class Command:
    """One word behind a slash. `run` gets what is written behind it, and may raise UsageError."""

    name: str
    argument: str  # "" takes none; in brackets it may be left out
    meaning: str
    run: Callable[[Any, str], None]  # Any: the chat that it is a command of
    values: Callable[[Any], Iterable[str]] = _nothing  # worth offering for the argument
    about: Callable[[str], str] | None = None  # what one of these means

    @property
    def needs_argument(self) -> bool:
        """Whether it means nothing alone."""
        return bool(self.argument) and not self.argument.startswith("[")

    @property
    def usage(self) -> str:
        """The whole command, as help writes it."""
        return f"/{self.name} {self.argument}".rstrip()


@dataclass(frozen=True)
class Suggestion:
    """What the prompt could say, and what that does."""

    text: str
    hint: str
    is_whole: bool  # enter may run it as it is
    takes_argument: bool = False  # something may follow


COMMANDS: dict[str, Command] = {}


def register(*commands: Command) -> None:
    """Make commands known to the prompt, its completion and the help."""
    COMMANDS.update((command.name, command) for command in commands)


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument of a command; None where `text` is a prompt."""
    if not text.startswith("/") or text.startswith("//"):
        return None
    match = _COMMAND.match(text)
    assert match is not None
    return match["name"], match["argument"].rstrip()


def prompt_text(text: str) -> str:
    """What a prompt says to the model: the first of two slashes only kept it from being a command."""
    return text[1:] if text.startswith("//") else text


def written(prompt: str) -> str:
    """How one writes a prompt so that it is none of the commands: the other way of `prompt_text`."""
    return f"/{prompt}" if prompt.startswith("/") else prompt


def execute(chat: Any, text: str, commands: Mapping[str, Command] = COMMANDS) -> None:
    """Run a command of a chat as it was written. Raises UsageError with one sentence where that cannot be."""
    name, argument = parse(text) or ("", "")
    command = commands.get(name)
    if command is None:
        near = get_close_matches(name, commands, n=1)
        meant = f" (did you mean /{near[0]}?)" if near else ""
        raise UsageError(f"There is no command /{name}{meant}: /help lists them, and // sends a slash.")
    if argument and not command.argument:
        raise UsageError(f"/{name} takes nothing behind it.")
    if command.needs_argument and not argument:
        raise UsageError(f"{command.usage}: {command.meaning}.")
    command.run(chat, argument)


def suggest(chat: Any, text: str) -> list[Suggestion]:
    """How a command that has been begun could go on."""
    if "\n" in text or not text.startswith("/") or text.startswith("//"):
        return []
    name, space, argument = text[1:].partition(" ")
    if not space:
        return [_suggestion(command) for command in COMMANDS.values() if command.name.startswith(name)]
    command = COMMANDS.get(name)
    if command is None:
        return []
    return [
        Suggestion(f"/{name} {value}", command.about(value) if command.about else command.meaning, True)
        for value in command.values(chat)
        if value.startswith(argument.lstrip())
    ]


def _suggestion(command: Command) -> Suggestion:
    hint = f"{command.argument}  {command.meaning}".strip()
    return Suggestion(f"/{command.name}", hint, not command.needs_argument, bool(command.argument))
