"""Runs the chat application in this terminal, and leaves the last reply there."""

import os
import sys

from eagle_chat.app import EagleChatApp, ReplacementFactory
from eagle_chat.conversation_recorder import Recorder
from eagle_chat.conversations import SavedConversation
from eagle_chat.look import Look
from eagle_chat.prompt_history import PromptHistory, history_path
from eagle_chat.terminal import stderr_to_log, tell_failed
from eagle_chat.visible import visible
from eagle_chat.worker import SessionFactory

QUIT_WAIT = 0.5  # seconds the engine gets to end its round when the app closes


def run_app(  # noqa: PLR0913
    make_session: SessionFactory, *, theme: str | None, title: str, recorder: Recorder | None = None,
    resume: SavedConversation | None = None, look: Look | None = None,
    replacement: ReplacementFactory | None = None,
) -> int:  # fmt: skip
    """Run the app in this terminal. Returns the exit code; the last reply stays on the normal screen."""
    with stderr_to_log() as log:
        app = EagleChatApp(
            make_session,
            theme=theme,
            title=title,
            recorder=recorder,
            resume=resume,
            look=look,
            replacement=replacement,
        )
        app.chat.prompt_bar.prompt.sent_before = PromptHistory(history_path())
        app.run()
        app.worker.join(QUIT_WAIT)
    code = app.return_code or 0
    if app.failure is not None:
        print(f"eagle-chat: {visible(app.failure)}", file=sys.stderr)
    elif code != 0:
        tell_failed(log)
    if app.feed.reply is not None and app.feed.reply.text:
        print(f"{visible(app.feed.reply.text)}\n\n{app.feed.reply.footer()}")
    if app.worker.is_alive():
        # it is inside a long call of a C library: interpreter shutdown under it can abort, so leave at once
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
