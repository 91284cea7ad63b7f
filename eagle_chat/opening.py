"""Which chat is opened: the screen, line by line, or one reply for a pipe."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import typer

from eagle_chat.configuration import is_given
from eagle_chat.errors import UsageError
from eagle_chat.options import Options
from eagle_chat.terminal import has_screen, is_terminal

if TYPE_CHECKING:
    from eagle_chat.look import Look


@dataclass(frozen=True)
class Wanted:
    """What the chat was asked for beside the common options."""

    theme: str | None
    ascii_only: bool
    plain: bool
    resume: str | None  # id of a saved conversation
    saves: bool
    given: frozenset[str]  # names of the options that the command line has


def open_chat(ctx: typer.Context, options: Options, wanted: Wanted) -> int:
    """The exit code of the chat that fits this terminal and these options."""
    dumb = is_terminal(sys.stdin) and is_terminal(sys.stdout) and not has_screen()
    # a pipe brings one prompt, unless the command line itself says otherwise
    if dumb or (wanted.plain and (is_given(ctx, "plain") or is_terminal(sys.stdin))):
        from eagle_chat.plain import chat_plainly

        return chat_plainly(options, wanted.ascii_only)
    if has_screen():
        from eagle_chat.look import chosen

        return _open_app(options, wanted, *chosen(ctx, wanted.theme, wanted.ascii_only))
    if wanted.resume is not None:
        raise UsageError("--resume needs a terminal: `eagle-chat chats show ID` prints a conversation")
    if is_terminal(sys.stdin):
        raise UsageError(
            "standard output is not a terminal that can show the chat: use `eagle-chat run PROMPT`, "
            "or --plain to chat line by line"
        )
    from eagle_chat.headless import Job, read_prompt, run

    return run(options, Job(read_prompt(None)))


def _open_app(options: Options, wanted: Wanted, theme: str | None, look: Look) -> int:
    from eagle_chat.conversation_recorder import Recorder
    from eagle_chat.conversations import Library
    from eagle_chat.replacement import replacement, session_factory
    from eagle_chat.running import run_app

    recorder = Recorder(Library(), saves=wanted.saves, given=wanted.given)
    resumed = recorder.library.find(wanted.resume) if wanted.resume else None
    return run_app(
        session_factory(options),
        theme=theme,
        title=options.model or options.server or "",
        recorder=recorder,
        resume=resumed,
        look=look,
        replacement=None if options.server else partial(replacement, options),
    )
