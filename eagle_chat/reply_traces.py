"""A reply that was shown as the trace of it, and files that are never overwritten."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.reply import Reply
from eagle_chat.trace import PACKED, PLAIN, trace_bytes


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


def write_new(file: Path, content: bytes) -> None:
    """Raises EagleChatError where the file is there already, or cannot be."""
    try:
        with file.open("xb") as out:
            out.write(content)
    except FileExistsError:
        raise UsageError(f"{file} is there already: name another file.") from None
    except OSError as error:
        raise EagleChatError(f"{file} cannot be written ({error.strerror}): name another file.") from None
