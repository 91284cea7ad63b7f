"""A message of the past in the prompt: sending it replaces all from there; what was stays a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagle_chat.commands import written
from eagle_chat.errors import UsageError

if TYPE_CHECKING:
    from eagle_chat.app import EagleChatApp


class Editing:
    """Knows which message is edited and what was being written before."""

    def __init__(self, app: EagleChatApp) -> None:
        self._app = app
        self._index: int | None = None
        self._draft = ""

    @property
    def active(self) -> bool:
        """Whether the prompt holds a message of the past."""
        return self._index is not None

    def begin(self, index: int) -> None:
        """Put the message into the prompt. Raises UsageError while a reply runs."""
        app = self._app
        if app.busy or app.feed.info is None:
            raise UsageError("Wait for the reply, or stop it with esc, then edit.")
        bar = app.chat.prompt_bar
        if not self.active:
            self._draft = bar.prompt.text
        self._index = index
        entries = app.feed.conversation.entries
        bar.prompt.put(written(entries[index].prompt))
        bar.prompt.editing = True
        bar.prompt.focus()
        bar.hint(
            f"message {index + 1} of {len(entries)}: enter replaces all from there, esc leaves it",
            stays=True,
        )

    def leave(self) -> None:
        """Nothing is edited; what was being written is back."""
        if self.active:
            self._app.chat.prompt_bar.prompt.put(self._draft)
            self.end()

    def end(self) -> None:
        """Nothing is edited; the prompt stays as it is."""
        if self.active:
            self._index, self._draft = None, ""
            self._app.chat.prompt_bar.prompt.editing = False
            self._app.chat.prompt_bar.hint("")

    def cut(self) -> None:
        """The edited message is sent: everything from there gives way."""
        assert self._index is not None
        app, index = self._app, self._index
        self.end()
        app.feed.conversation.branch(index)
        app.chat.transcript.cut(index)
        app.worker.go_on_after(app.feed.conversation.turns)
        app.say("/versions goes back to what was there before.")

    def next_version(self) -> None:
        """Go to another version of the conversation. Raises UsageError where there is none."""
        app = self._app
        if app.busy or app.feed.info is None:
            raise UsageError("Wait for the reply, or stop it with esc, then go to another version.")
        if not app.feed.conversation.next_version():
            raise UsageError("There is one version only: editing a message leaves one behind.")
        self.leave()
        app.worker.go_on_after(app.feed.conversation.turns)
        app.feed.show_conversation()
        count = len(app.feed.conversation.versions) + 1
        app.say(f"Another of {count} versions; the next message goes on from here.")
