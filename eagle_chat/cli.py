"""The command line: options in, exit code out. Nothing here imports torch or textual before it is needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from eagle_chat import __version__
from eagle_chat.errors import UsageError
from eagle_chat.options import Options, with_options


class _Commands(TyperGroup):
    """Knows a prompt from a misspelt command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A prompt in place of a command is told where prompts go."""
        if " " in args[0] and self.get_command(ctx, args[0]) is None:
            raise UsageError(
                f'"{args[0]}" is not a command: to ask it without the screen, put `run` before it'
            )
        return super().resolve_command(ctx, args)


cli = typer.Typer(
    cls=_Commands,
    invoke_without_command=True,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"eagle-chat {__version__}")
        raise typer.Exit


@cli.callback()
@with_options
def chat(
    ctx: typer.Context,
    options: Options,
    theme: Annotated[
        str | None, typer.Option(help="Colour theme: eagle-dark, eagle-light, or any of Textual's.")
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Chat in the terminal and watch speculative decoding happen.

    Without a command it opens the chat. With a prompt on standard input and no terminal it streams the reply.
    """
    if ctx.invoked_subcommand is not None:
        return
    if _is_terminal(sys.stdin) and _is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb":
        raise typer.Exit(_open_app(options, theme))
    if _is_terminal(sys.stdin):
        raise UsageError("this is not a terminal that can show the chat: use `eagle-chat run PROMPT`")
    from eagle_chat.headless import Job, read_prompt
    from eagle_chat.headless import run as run_headless

    raise typer.Exit(run_headless(options, Job(read_prompt(None))))


@cli.command()
@with_options
def run(
    ctx: typer.Context,
    options: Options,
    prompt: Annotated[str | None, typer.Argument(help="The prompt; standard input without one.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of the text.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Record every round to this file, as JSON lines.", dir_okay=False)
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run plain decoding too, same seed, and compare speed and text.")
    ] = False,
) -> None:
    """Answer one prompt without the screen: text to standard output, a summary to standard error."""
    from eagle_chat.headless import Job, read_prompt
    from eagle_chat.headless import run as run_headless

    raise typer.Exit(run_headless(options, Job(read_prompt(prompt), as_json, trace, compare)))


def _is_terminal(stream: TextIO | None) -> bool:
    """A stream that was closed before we started is None."""
    return stream is not None and stream.isatty()


def _open_app(options: Options, theme: str | None) -> int:
    from eagle_chat.app import run_app
    from eagle_chat.events import Loading
    from eagle_chat.worker import Session

    def make_session(progress: Callable[[Loading], None]) -> Session:
        from eagle_chat.loading import load_session

        return load_session(options, progress)

    return run_app(make_session, theme=theme, title=options.model)
