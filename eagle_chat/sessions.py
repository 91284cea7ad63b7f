"""Where a session comes from: models loaded here, or a server that runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from eagle_chat.events import Loading
from eagle_chat.options import Options

if TYPE_CHECKING:
    from eagle_chat.worker import Session


def open_session(options: Options, progress: Callable[[Loading], None]) -> Session:
    """A session that takes prompts. Only models that are loaded here need torch."""
    if options.server is not None:
        from eagle_chat.server.session import connect

        return connect(options, progress)
    from eagle_chat.loading import load_session

    return load_session(options, progress)
