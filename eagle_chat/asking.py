"""A question before something is lost."""

import sys

import typer

from eagle_chat.errors import UsageError
from eagle_chat.terminal import is_terminal


def agreed(question: str) -> bool:
    """Yes or no, asked on standard error. Raises UsageError where nobody can answer."""
    if not is_terminal(sys.stdin):
        raise UsageError("this cannot be asked here, without a terminal: say --yes to delete")
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
