"""The slash commands that every chat has, with a screen or without."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

from eagle_chat.choices import MOST_SEED, PARAMETERS, Choices, Parameter, method_parameter
from eagle_chat.commands import Command
from eagle_chat.errors import UsageError
from eagle_chat.methods import CARDS, Method
from eagle_chat.reply import Reply


class Chat(Protocol):
    """What these commands need of a chat."""

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that replies can be decoded with."""

    @property
    def reply(self) -> Reply | None:
        """The newest."""

    def chosen(self) -> Choices:
        """What the next reply is decoded with. Raises UsageError before there is a model."""

    def change(self, choices: Choices) -> None:
        """Decode the next reply so."""

    def regenerate(self, seed: int | None) -> None:
        """Another reply to the last prompt, with a random seed unless one is given."""

    def say(self, text: str) -> None:
        """One sentence for the user."""

    def action_new_chat(self) -> None:
        """Forget the conversation."""

    def action_help(self) -> None:
        """Show what there is."""

    def run_quit(self) -> None:
        """Leave."""


def _set(parameter: Parameter, chat: Chat, text: str) -> None:
    choices = chat.chosen()
    if not text:
        raise UsageError(f"/{parameter.command} is {parameter.show(choices)} now: {parameter.meaning}.")
    try:
        value = parameter.parse(text)
    except UsageError as error:
        raise UsageError(f"/{parameter.command}: {error}.") from None
    wanted = replace(choices, **{parameter.name: value})
    chat.change(wanted)
    chat.say(f"{parameter.command} {parameter.show(wanted)}, from the next reply on.")


def _words(parameter: Parameter, _: Chat) -> Iterable[str]:
    """The word that leaves it to us; a system prompt could begin like it."""
    return (parameter.unset,) if parameter.unset and parameter.name != "system" else ()


def _method(chat: Chat, text: str) -> None:
    _set(method_parameter(chat.methods), chat, text)


def _regenerate(chat: Chat, text: str) -> None:
    if text and not (text.isascii() and text.isdigit() and int(text) <= MOST_SEED):
        raise UsageError(f"/regen takes a seed, a whole number from 0 to {MOST_SEED}, not {text}.")
    chat.regenerate(int(text) if text else None)


def _retry(chat: Chat, _: str) -> None:
    chat.regenerate(chat.reply.seed if chat.reply else None)


def _about_method(name: str) -> str:
    return CARDS[Method(name)].proposes if name in list(Method) else "however the server drafts"


DECODING = (
    Command("method", "[NAME]", "what drafts; the text does not depend on it", _method,
            lambda chat: chat.methods, _about_method),
    *(Command(each.command, f"[{each.argument}]", each.meaning, partial(_set, each), partial(_words, each))
      for each in PARAMETERS),
)  # fmt: skip
AGAIN = (
    Command("regen", "[SEED]", "another reply to the last prompt, with a new seed or this one", _regenerate),
    Command("retry", "", "the last reply again with its own seed, decoded as is chosen now", _retry),
)
COMING_AND_GOING = (
    Command("clear", "", "forget the conversation", lambda chat, _: chat.action_new_chat()),
    Command("help", "", "keys, commands and numbers", lambda chat, _: chat.action_help()),
    Command("quit", "", "leave", lambda chat, _: chat.run_quit()),
)
