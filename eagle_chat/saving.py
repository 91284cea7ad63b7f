"""What the chat keeps of itself in files: the last reply as a trace, what was written, the tree."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.export import PACKED, encoded, ending
from eagle_chat.pictures import png
from eagle_chat.reply import Reply
from eagle_chat.trace import trace_bytes

if TYPE_CHECKING:
    from eagle_chat.app import EagleChatApp

PLAIN = ".jsonl"
TRACES = (PLAIN, PACKED)


def traces(reply: Reply | None) -> dict[str, Callable[[], bytes]]:
    """A reply as a trace, plain and packed, by ending; nothing where its rounds are not known or go on."""
    if reply is None or not reply.over or not reply.rounds or reply.info is None:
        return {}
    info = replace(reply.info, notes=())
    if info.method != reply.method:  # run beside the conversation, by what needs no head
        info = replace(info, method=reply.method, head=None, nodes=0, depth=0, beam=0)

    def trace() -> bytes:
        return trace_bytes(info, reply.events())

    return {PLAIN: trace, PACKED: lambda: gzip.compress(trace(), mtime=0)}


def packed_trace(reply: Reply | None) -> dict[str, Callable[[], bytes]]:
    """The packed one of `traces` alone, to be written beside other files."""
    return {each: make for each, make in traces(reply).items() if each == PACKED}


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
    if make is None and ending(file) in TRACES:
        raise UsageError(_no_trace(app.reply))
    if make is None:
        raise UsageError(
            f"/save {name}: the ending says what to save: {PACKED} or {PLAIN} the last reply as a trace, "
            ".md or .html the conversation, .svg or .png the tree."
        )
    _write_new(file, make())
    shown = f"; `eagle-chat replay {file.name}` shows it again" if ending(file) in known else ""
    app.say(f"Saved {name}{shown}.")


def _pictures(app: EagleChatApp) -> dict[str, Callable[[], bytes]]:
    svg = app.tree_picture()
    return {} if svg is None else {".svg": lambda: encoded(svg), ".png": lambda: png(svg)}


def _no_trace(reply: Reply) -> str:
    if not reply.over:
        return "Wait for the reply, or stop it with esc, then save its trace."
    return "The rounds of that reply are not known here: f5 makes it anew, then save its trace."


def _write_new(file: Path, content: bytes) -> None:
    try:
        with file.open("xb") as out:
            out.write(content)
    except FileExistsError:
        raise UsageError(f"{file} is there already: name another file.") from None
    except OSError as error:
        raise EagleChatError(f"{file} cannot be written ({error.strerror}): name another file.") from None
