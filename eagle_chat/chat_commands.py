"""The commands of the chat with a screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from eagle_chat.catalogue import catalogue
from eagle_chat.code_blocks import code_blocks
from eagle_chat.commands import Command, register
from eagle_chat.errors import UsageError
from eagle_chat.saving import save
from eagle_chat.screens.methods import MethodsScreen
from eagle_chat.screens.parameters import ParametersScreen
from eagle_chat.shared_commands import AGAIN, COMING_AND_GOING, DECODING
from eagle_chat.trace import PACKED, PLAIN, ending

if TYPE_CHECKING:
    from eagle_chat.app import EagleChatApp


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
    choices = app.chosen()
    if app.busy:
        raise UsageError("Wait for the reply, or stop it with esc, then change the model.")
    if app.replacement is None:
        raise UsageError("There is no other model here.")
    app.feed.info = None  # what is sent waits for the model
    app.worker.switch(app.replacement(name, choices), app.feed.conversation.turns)


def _parameters(app: EagleChatApp, _: str) -> None:
    form = ParametersScreen(app.chosen(), app.feed.methods)
    app.push_screen(form, lambda choices: app.change(choices) if choices else None)


def _methods(app: EagleChatApp, _: str) -> None:
    def take(name: str | None) -> None:
        if name is not None:
            app.action_command(f"/method {name}")

    app.push_screen(MethodsScreen(app.chosen().method, app.methods), take)


def _load(app: EagleChatApp, words: str) -> None:
    if ending(Path(words)) in (PLAIN, PACKED):
        raise UsageError(f"A trace is shown outside of the chat: eagle-chat replay {words}")
    app.saved.open_list(words)


register(
    *DECODING,
    Command("methods", "", "what can draft, with a card for each, to choose from", _methods),
    Command("params", "", "all of these on a form", _parameters),
    Command("model", "NAME", "another model, which goes on with this conversation; alias, hub id or folder",
            _model, lambda app: catalogue()),
    *AGAIN,
    Command("edit", "[N]", "change a message of yours, the last or the Nth, and go on from there", _edit),
    Command("versions", "", "the conversation as it was before an edit; again for the others",
            lambda app, _: app.editing.next_version()),
    Command("copy", "[code [N]]", "the last reply, or a code block of it", _copy, lambda app: ("code",)),
    Command("save", "[FILE]", "the last reply as a trace; the chat (.md, .html) or the tree (.svg, .png)",
            save),
    Command("load", "[WORDS]", "a saved conversation to go on with, searched by these words", _load),
    *COMING_AND_GOING,
)  # fmt: skip
