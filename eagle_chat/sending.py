"""What becomes of a text that was sent: a command, a prompt to the engine, or one that waits for its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagle_chat.commands import parse, prompt_text

if TYPE_CHECKING:
    from eagle_chat.app import EagleChatApp


class Sending:
    """Belongs to the app. While nothing can be asked, it keeps one prompt for later."""

    def __init__(self, app: EagleChatApp) -> None:
        self._app = app
        self._queued: str | None = None

    def send(self, text: str) -> None:
        """Run the command, ask, or keep what cannot be asked now."""
        app, bar = self._app, self._app.chat.prompt_bar
        waiting = app.busy or app.feed.info is None
        if not text.strip():
            bar.hint("Nothing to send yet: write something first.")
        elif parse(text):
            bar.prompt.taken(text)
            if not app.action_command(text):
                bar.prompt.put(text)
        elif app.editing.active and waiting:
            bar.hint("Wait for the reply, or stop it with esc, then send the changed message.")
        elif self._queued is not None:
            bar.hint("One prompt already waits; esc stops the reply and gives that prompt back.")
        else:
            bar.prompt.taken(text)
            if waiting:
                self._keep(text)
                return
            if app.editing.active:
                app.editing.cut()
            self._ask(text)

    def take_back(self) -> None:
        """A prompt that waited goes back where it was written."""
        if self._queued is not None:
            self._app.chat.prompt_bar.give_back(self._queued)
            self._queued = None

    def send_next(self) -> None:
        """Nothing runs any more: ask what waited."""
        if self._queued is not None:
            prompt, self._queued = self._queued, None
            self._app.chat.prompt_bar.hint("")
            self._ask(prompt)

    def _keep(self, text: str) -> None:
        self._queued = text
        waits = " (p lets the engine go on)" if self._app.pausing.wanted else ""
        first_line = text.strip().partition("\n")[0]
        self._app.chat.prompt_bar.hint(f"sent next{waits}: {first_line}", stays=True)

    def _ask(self, text: str) -> None:
        app, prompt = self._app, prompt_text(text)
        app.feed.conversation.sent(prompt)
        app.chat.sent(prompt)
        app.chat.busy = True
        app.worker.ask(prompt)
