"""What the chat adds to Textual's command palette."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand

if TYPE_CHECKING:
    from eagle_chat.app import EagleChatApp


def palette_commands(app: EagleChatApp) -> Iterable[SystemCommand]:
    """In the order in which they are listed."""
    command = partial(partial, app.action_command)
    yield SystemCommand("New chat", "Forget the conversation", app.action_new_chat)
    yield SystemCommand("Compare with plain decoding", "The last prompt, side by side", app.action_compare)
    yield SystemCommand("Regenerate (new seed)", "Replace the last reply", app.action_regenerate)
    yield SystemCommand("Copy the last reply", "As Markdown", command("/copy"))
    yield SystemCommand("Save a trace", "The last reply, for `eagle-chat replay`", command("/save"))
    yield SystemCommand("Methods", "What can draft, with a card for each", command("/methods"))
    yield SystemCommand("Parameters", "Temperature, seed, method and the rest", command("/params"))
    yield SystemCommand("Conversations", "Search and resume", app.action_conversations)
    yield SystemCommand("Help", "Keys, numbers and the tree", app.action_help)
