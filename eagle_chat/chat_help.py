"""The chat's help: its keys by where they work, and its commands."""

from collections.abc import Sequence

from textual.binding import BindingType

from eagle_chat.commands import COMMANDS
from eagle_chat.exporting_app import ExportingApp
from eagle_chat.screens.chat import ChatScreen
from eagle_chat.screens.conversations import ConversationsScreen
from eagle_chat.screens.help import HelpScreen
from eagle_chat.widgets.draft_tree import DraftTreeView
from eagle_chat.widgets.live_tree import LiveTree
from eagle_chat.widgets.prompt import Prompt
from eagle_chat.widgets.token_view import TokenView
from eagle_chat.widgets.transcript import Transcript

OUTSIDE = [*ChatScreen.BINDINGS, *LiveTree.BINDINGS, *DraftTreeView.BINDINGS, *ExportingApp.BINDINGS]


def chat_help(everywhere: Sequence[BindingType]) -> HelpScreen:
    """With the keys that work on every screen."""
    return HelpScreen(
        ("Writing", Prompt.BINDINGS),
        ("Everywhere", everywhere),
        ("Conversations", ConversationsScreen.BINDINGS),
        ("In the conversation", Transcript.BINDINGS),
        ("Outside the prompt", OUTSIDE),
        ("In a reply shown token by token (h)", TokenView.BINDINGS),
        commands=[(command.usage, command.meaning) for command in COMMANDS.values()],
    )
