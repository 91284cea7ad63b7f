"""The commands of the chat."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from eagle_chat.catalogue import catalogue
from eagle_chat.choices import MOST_SEED, PARAMETERS, Choices, Parameter, method_parameter
from eagle_chat.code_blocks import code_blocks
from eagle_chat.commands import Command, register
from eagle_chat.errors import UsageError
from eagle_chat.methods import CARDS, Method
from eagle_chat.screens.parameters import ParametersScreen

if TYPE_CHECKING:
    from eagle_chat.app import EagleChatApp


def chosen(app: EagleChatApp) -> Choices:
    """What the next reply is decoded with. Raises UsageError before there is a model."""
    if app.feed.info is None:
        raise UsageError("Wait until the model is loaded.")
    return app.feed.choices


def change(app: EagleChatApp, choices: Choices) -> None:
    """Decode the next reply so."""
    app.feed.choices = choices
    app.worker.change(choices)


def _set(parameter: Parameter, app: EagleChatApp, text: str) -> None:
    choices = chosen(app)
    if not text:
        raise UsageError(f"/{parameter.command} is {parameter.show(choices)} now: {parameter.meaning}.")
    try:
        value = parameter.parse(text)
    except UsageError as error:
        raise UsageError(f"/{parameter.command}: {error}.") from None
    wanted = replace(choices, **{parameter.name: value})
    change(app, wanted)
    app.say(f"{parameter.command} {parameter.show(wanted)}, from the next reply on.")


def _words(parameter: Parameter, _: EagleChatApp) -> Iterable[str]:
    """The word that leaves it to us; a system prompt could begin like it."""
    return (parameter.unset,) if parameter.unset and parameter.name != "system" else ()


def _method(app: EagleChatApp, text: str) -> None:
    _set(method_parameter(app.feed.methods), app, text)


def _regenerate(app: EagleChatApp, text: str) -> None:
    if text and not (text.isascii() and text.isdigit() and int(text) <= MOST_SEED):
        raise UsageError(f"/regen takes a seed, a whole number from 0 to {MOST_SEED}, not {text}.")
    app.regenerate(int(text) if text else None)


def _retry(app: EagleChatApp, _: str) -> None:
    reply = app.feed.reply
    app.regenerate(reply.seed if reply else None)


def _edit(app: EagleChatApp, text: str) -> None:
    count = len(app.feed.conversation.entries)
    if count == 0:
        raise UsageError("There is no message to edit yet.")
    number = int(text) if text.isascii() and text.isdigit() else (0 if text else count)
    if not 1 <= number <= count:
        raise UsageError(f"/edit takes the number of a message of yours, 1 to {count}, not {text}.")
    app.editing.begin(number - 1)


def _copy(app: EagleChatApp, text: str) -> None:
    reply = app.feed.reply
    what, _, number = text.partition(" ")
    if what not in ("", "code"):
        raise UsageError(f"/copy takes code, code 2 and so on, or nothing for the whole reply, not {text}.")
    if reply is None or not reply.text:
        raise UsageError("There is no reply to copy yet.")
    if not what:
        app.copy_text(reply.text)
        return
    blocks = code_blocks(reply.text)
    if not blocks:
        raise UsageError("The last reply has no code block.")
    wanted = number or str(len(blocks))
    if wanted not in map(str, range(1, len(blocks) + 1)):
        raise UsageError(f"The last reply has code blocks 1 to {len(blocks)}, not {number}.")
    app.copy_text(blocks[int(wanted) - 1])


def _model(app: EagleChatApp, name: str) -> None:
    choices = chosen(app)
    if app.busy:
        raise UsageError("Wait for the reply, or stop it with esc, then change the model.")
    if app.replacement is None:
        raise UsageError("There is no other model here.")
    app.feed.info = None  # what is sent waits for the model
    app.worker.switch(app.replacement(name, choices), app.feed.conversation.turns)


def _parameters(app: EagleChatApp, _: str) -> None:
    form = ParametersScreen(chosen(app), app.feed.methods)
    app.push_screen(form, lambda choices: change(app, choices) if choices else None)


def _about_method(name: str) -> str:
    return CARDS[Method(name)].proposes if name in list(Method) else "however the server drafts"


register(
    Command("method", "[NAME]", "what drafts; the text does not depend on it", _method,
            lambda app: app.feed.methods, _about_method),
    *(Command(each.command, f"[{each.argument}]", each.meaning, partial(_set, each), partial(_words, each))
      for each in PARAMETERS),
    Command("params", "", "all of these on a form", _parameters),
    Command("model", "NAME", "another model, which goes on with this conversation; alias, hub id or folder",
            _model, lambda app: catalogue()),
    Command("regen", "[SEED]", "another reply to the last prompt, with a new seed or this one", _regenerate),
    Command("retry", "", "the last reply again with its own seed, decoded as is chosen now", _retry),
    Command("edit", "[N]", "change a message of yours, the last or the Nth, and go on from there", _edit),
    Command("versions", "", "the conversation as it was before an edit; again for the others",
            lambda app, _: app.editing.next_version()),
    Command("copy", "[code [N]]", "the last reply, or a code block of it", _copy, lambda app: ("code",)),
    Command("clear", "", "forget the conversation", lambda app, _: app.action_new_chat()),
    Command("help", "", "keys, commands and numbers", lambda app, _: app.action_help()),
    Command("quit", "", "leave", lambda app, _: app.run_quit()),
)  # fmt: skip
