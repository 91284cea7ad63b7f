"""Recognises what went wrong behind an exception, whichever library wrapped it."""

import errno
from collections.abc import Iterator
from pathlib import Path

from eagle_chat.errors import EagleChatError

NO_SPACE = "No space left on device"


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def is_disk_full(error: BaseException) -> bool:
    """True for a full disk or quota, also where only the text is left of it (the hub's Rust transfer)."""
    full = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    return any(
        (isinstance(cause, OSError) and cause.errno in full) or NO_SPACE in str(cause)
        for cause in causes(error)
    )


def disk_full(what: str, folder: Path) -> EagleChatError:
    """The sentence for a disk with no room for `what`."""
    return EagleChatError(
        f"The disk is full: no room for {what} in {folder}; free some space and start again."
    )
