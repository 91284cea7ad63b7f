"""What the chat keeps of itself in files: the last reply as a trace, what was written, the tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from eagle_chat.errors import UsageError
from eagle_chat.export import encoded
from eagle_chat.pictures import png
from eagle_chat.reply import Reply
from eagle_chat.reply_traces import traces, write_new
from eagle_chat.trace import PACKED, PLAIN, ending

if TYPE_CHECKING:
    from eagle_chat.app import EagleChatApp


def save(app: EagleChatApp, name: str) -> None:
    """`/save [FILE]`: its ending says what; without a name it is a trace. Raises EagleChatError."""
    if app.reply is None:
        raise UsageError("There is no reply to save yet.")
    known = traces(app.reply)
    if not name:
        if not known:
            raise UsageError(_no_trace(app.reply))
        app.keep("trace", {PACKED: known[PACKED]})
        return
    file = Path(name).expanduser()
    make = {**app.documents(), **known, **_pictures(app)}.get(ending(file))
    if make is None and ending(file) in (PLAIN, PACKED):
        raise UsageError(_no_trace(app.reply))
    if make is None:
        raise UsageError(
            f"/save {name}: the ending says what to save: {PACKED} or {PLAIN} the last reply as a trace, "
            ".md or .html the conversation, .svg or .png the tree."
        )
    write_new(file, make())
    shown = f"; `eagle-chat replay {quote(str(file))}` shows it again" if ending(file) in known else ""
    app.say(f"Saved {name}{shown}.")


def _pictures(app: EagleChatApp) -> dict[str, Callable[[], bytes]]:
    svg = app.tree_picture()
    return {} if svg is None else {".svg": lambda: encoded(svg), ".png": lambda: png(svg)}


def _no_trace(reply: Reply) -> str:
    if not reply.over:
        return "Wait for the reply, or stop it with esc, then save its trace."
    return "The rounds of that reply are not known here: f5 makes it anew, then save its trace."
