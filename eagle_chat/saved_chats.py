"""What the app does with saved conversations: list them, go on with one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagle_chat.conversation import Entry
from eagle_chat.conversation_export import CUT_OFF, numbers
from eagle_chat.conversations import SavedConversation, SavedTurn
from eagle_chat.events import Finished, Started
from eagle_chat.reply import Reply
from eagle_chat.screens.conversations import ConversationsScreen
from eagle_chat.summary import HOW_IT_ENDED, STOPPED_BY_USER

if TYPE_CHECKING:
    from eagle_chat.app import EagleChatApp


class SavedReply(Reply):
    """A reply of an earlier day: its text and its numbers, without its rounds."""

    def __init__(self, turn: SavedTurn) -> None:
        super().__init__(Started(turn.prompt, turn.method, turn.seed))
        self.add(Finished(turn.reply, turn.end or {}))
        self.problem = CUT_OFF if turn.cut_off else turn.problem
        said_before = f" · {HOW_IT_ENDED[STOPPED_BY_USER]}"
        self._numbers = numbers(turn).removesuffix(said_before) if turn.end else ""

    def footer(self) -> str:
        """The line that stood under it."""
        return self._numbers


class SavedChats:
    """Belongs to the app, which asks it when a key says so."""

    def __init__(self, app: EagleChatApp) -> None:
        self._app = app
        self._recorder = app.worker.recorder
        self._resumed: SavedConversation | None = None

    @property
    def current(self) -> SavedConversation | None:
        """The conversation on screen; the recorder learns of it when the model is loaded."""
        return self._recorder.conversation if self._app.feed.info else self._resumed

    def open_list(self, words: str = "") -> None:
        """All of them, or those with these words, on a screen of their own."""
        if self._app.busy:
            self._app.say("Wait for the reply, or stop it with esc, then open another conversation.")
            return
        self._app.push_screen(ConversationsScreen(self._recorder.library, self.current, words), self._chosen)

    def resume(self, conversation: SavedConversation) -> None:
        """Show it, and have the session go on with it."""
        app, chat = self._app, self._app.chat
        self._resumed = conversation
        if app.feed.info is None:
            chat.expect(conversation.session.get("device"))
        app.worker.resume(conversation)
        chat.transcript.clear()
        chat.tree_view.show(None)
        app.feed.leave(running=False)
        turns = conversation.turns[:-1] if conversation.unanswered else conversation.turns
        for turn in turns:
            reply = SavedReply(turn)
            app.feed.conversation.entries.append(Entry(turn.prompt, reply))
            chat.transcript.add_prompt(turn.prompt)
            chat.transcript.add_reply().show(reply)
        count = f"{len(turns)} turn{'' if len(turns) == 1 else 's'}"
        chat.transcript.note(f"Resumed, {count}: the next prompt has them read first (prefill).")
        chat.transcript.anchor()  # its end is what one goes on from
        if conversation.unanswered:
            chat.prompt_bar.give_back(conversation.unanswered)
        chat.prompt_bar.prompt.focus()

    def _chosen(self, conversation: SavedConversation | None) -> None:
        on_screen = self.current.id if self.current is not None else None
        if conversation is not None and conversation.id != on_screen:  # which has its rounds
            self.resume(conversation)
