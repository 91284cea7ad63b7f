"""The command line: options in, exit code out. Nothing here imports torch or textual before it is needed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from eagle_chat import __version__, cache_command, config_command
from eagle_chat.chats_cli import chats, resume_the_last
from eagle_chat.cli_bench import Csv, Heads, Markdown, Methods, Repeats, Resume, Tasks, Temperatures
from eagle_chat.cli_export import export
from eagle_chat.cli_models import around_models
from eagle_chat.cli_studying import studying
from eagle_chat.cli_training import train
from eagle_chat.cli_watching import Ascii, Theme, watching
from eagle_chat.configuration import WEIGHTS, is_given
from eagle_chat.errors import UsageError
from eagle_chat.options import Options
from eagle_chat.sharing_options import with_options

MoreFiles = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILE]...", help="More files of questions, as in --questions *.jsonl."),
]
QuestionFiles = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE [FILE]...",
        help='Questions of a task: a JSON object with "turns" (texts) a line. May be repeated.',
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first questions of each file.")]
TablesAsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the tables.")]


class _Commands(TyperGroup):
    """Knows a prompt from a misspelt command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--resume` may go without its id."""
        return super().parse_args(ctx, resume_the_last(args, self.commands))

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
cli.add_typer(config_command.commands, name="config")
cli.add_typer(chats, name="chats")


def _print_version(asked: bool) -> None:
    if asked:
        print(f"eagle-chat {__version__}")
        raise typer.Exit


@cli.callback()
@with_options
def chat(  # noqa: PLR0913 - one for each option
    ctx: typer.Context,
    *,
    options: Options,
    theme: Theme = None,
    ascii_only: Ascii = False,
    plain: Annotated[
        bool,
        typer.Option("--plain", help="Chat line by line, without the screen: for screen readers and pipes."),
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(metavar="[ID]", help="Go on with a saved conversation, by default the last one."),
    ] = None,
    no_save: Annotated[bool, typer.Option("--no-save", help="Leave no trace of this chat on disk.")] = False,
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
    from eagle_chat.opening import Wanted, open_chat

    given = frozenset(name for name in ctx.params if is_given(ctx, name))
    raise typer.Exit(open_chat(ctx, options, Wanted(theme, ascii_only, plain, resume, not no_save, given)))


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


@cli.command()
@partial(with_options, configured=WEIGHTS, max_new_tokens=128)
def evaluate(  # noqa: PLR0913 - one for each option
    ctx: typer.Context,
    *,
    options: Options,
    more: MoreFiles = None,
    questions: QuestionFiles = None,
    limit: Limit = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Another head to compare with: alias, hub id or folder. May be repeated."),
    ] = None,
    pld: Annotated[
        bool, typer.Option("--pld", help="Compare with prompt lookup, which has its own length of draft.")
    ] = False,
    as_json: TablesAsJson = False,
) -> None:
    """Measure how much of what a draft head proposes is accepted: τ by task and depth, and calibration.

    The turns of a question are asked as one conversation. The seed is 0 unless given. Of the configuration
    only model, head, dtype and device count here.
    """
    from eagle_chat.evaluate import Job
    from eagle_chat.evaluate import evaluate as run_evaluation

    files = [*(questions or ()), *(more or ())]
    raise typer.Exit(run_evaluation(options, Job(files, limit, against or (), pld, as_json)))


@cli.command()
@partial(with_options, configured=WEIGHTS, repeated={"head": Heads}, max_new_tokens=128)
def bench(  # noqa: PLR0913 - one for each option
    ctx: typer.Context,
    *,
    options: Options,
    more: MoreFiles = None,
    questions: QuestionFiles = None,
    tasks: Tasks = None,
    limit: Limit = None,
    methods: Methods = None,
    temperatures: Temperatures = None,
    repeats: Repeats = 1,
    ui: Annotated[
        bool, typer.Option("--ui", help="Measure what the screen costs instead: one prompt of its own.")
    ] = False,
    pairs: Annotated[int, typer.Option(min=1, help="Of --ui: replies without and with the screen.")] = 5,
    as_json: TablesAsJson = False,
    csv: Csv = None,
    markdown: Markdown = None,
    resume: Resume = None,
) -> None:
    """Measure speed: every method answers every prompt, one right after the other, in one process.

    A ratio is that of two neighbours; the median of all is shown, with the
    interval that holds it with 95 % (bootstrap over the ratios). Texts are
    compared with plain decoding's, whose replies every conversation goes on
    from: all turns of a question are asked. The seed is 0 unless given.

    --nodes, --depth and --beam are for the methods of the EAGLE head; those
    beside it have sizes of their own. For transformers the model is loaded a second time.
    Of the configuration only model, head, dtype and device count here.
    """
    files = [*(questions or ()), *(more or ())]
    if ui:
        from eagle_chat.bench_ui import bench_ui

        if files or tasks or methods or temperatures or limit or repeats > 1 or csv or markdown or resume:
            raise UsageError(
                "--ui asks a prompt of its own, as often as --pairs says: leave questions, --tasks, "
                "--methods, --temperatures, --limit, --repeats, --csv, --markdown and --resume out"
            )
        raise typer.Exit(bench_ui(options, pairs, as_json))
    from eagle_chat.bench import Job
    from eagle_chat.bench import bench as run_bench

    job = Job(files, tasks, methods, temperatures, repeats, limit, as_json, csv, markdown, resume)
    raise typer.Exit(run_bench(options, job))


cli.command()(train)
cli.command()(export)
cli.add_typer(watching)
cli.add_typer(around_models)
cli.add_typer(cache_command.commands, name="cache")
cli.add_typer(studying)
