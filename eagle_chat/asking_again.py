"""The last prompt once more: another reply in place of the last one, or the same beside another method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagle_chat.methods import ALWAYS_THERE
from eagle_chat.reply import Reply
from eagle_chat.screens.compare import CompareScreen
from eagle_chat.server.options import NO_COMPARISON

if TYPE_CHECKING:
    from eagle_chat.app import EagleChatApp


class AskingAgain:
    """Belongs to the app, which asks it when a key says so."""

    def __init__(self, app: EagleChatApp) -> None:
        self._app = app

    def compare(self) -> None:
        """Without drafting, side by side with the last reply."""
        app, reply = self._app, self._last_reply("compare")
        if reply is None:
            return
        assert app.feed.info is not None
        if app.feed.info.server is not None:
            app.say(NO_COMPARISON)
        elif not reply.rounds:
            app.say("That reply is of an earlier day: f5 makes it anew, then compare.")
        elif reply.method == "none":
            app.say("This is plain decoding already: there is nothing to compare it with.")
        else:
            methods = [method for method in ALWAYS_THERE if method != reply.method]
            screen = CompareScreen(reply, app.feed.info, methods)
            app.push_screen(screen)
            self.run(screen)

    def run(self, screen: CompareScreen) -> None:
        """With the method that the screen has come to."""
        self._app.feed.comparison = screen
        self._app.chat.busy = True
        self._app.worker.again(method=screen.method)

    def regenerate(self, seed: int | None) -> None:
        """With a random seed unless one is given."""
        app, reply = self._app, self._last_reply("regenerate")
        if reply is None:
            return
        app.feed.replacing = True
        app.chat.busy = True
        if reply.is_turn:
            app.worker.regenerate(seed=seed)
        else:  # it has left no trace in the session
            app.worker.ask(reply.prompt, seed=seed)

    def _last_reply(self, what: str) -> Reply | None:
        """The last reply if `what` can be done with it now; otherwise the user is told why not."""
        app = self._app
        if app.busy or app.feed.info is None:
            app.say(f"Wait for the reply, or stop it with esc, then {what}.")
        elif app.feed.reply is None:
            app.say(f"There is no reply to {what} yet.")
        elif app.screen is app.chat:
            return app.feed.reply
        return None
