"""The command line: options in, exit code out. Nothing here imports torch or textual before it is needed."""

from __future__ import annotations

from dataclasses import replace
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
from eagle_chat.cli_watching import Ascii, Theme, watching
from eagle_chat.configuration import WEIGHTS, filled, is_given
from eagle_chat.errors import UsageError
from eagle_chat.methods import HeadKind
from eagle_chat.options import Dtype, Options, options_above, with_options

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


@cli.command()
def train(  # noqa: PLR0913 - one for each option
    ctx: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the head and all that leads to it.", file_okay=True)],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Target: alias, hub id or folder.", show_default=False)
    ] = None,
    method: Annotated[HeadKind, typer.Option(help="Kind of head.")] = HeadKind.EAGLE2,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="As much as can be done in about this time.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of conversations to train on. Default: a million.")
    ] = None,
    passes: Annotated[
        float | None, typer.Option(min=0.01, help="How often each token is trained on. Default: 4.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help='Own conversations: {"messages": [{"role", "content"}, …]} a line. Default: the target\'s.'
        ),
    ] = None,
    vocab: Annotated[int, typer.Option(min=16, help="Size of the draft vocabulary.")] = 8192,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=8,
            help="Unrolled steps (default: 3), or heads of medusa and hydra (4).",
            show_default=False,
        ),
    ] = None,
    regression: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Weight of the distance to the target's features in the loss. Default: 5 for eagle2.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Same seed, same run.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take, and do nothing.")
    ] = False,
    dtype: Annotated[
        Dtype | None, typer.Option(help="Number format of the target.", show_default="auto")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda, cuda:1, mps.", show_default="auto")
    ] = None,
) -> None:
    """Train a draft head for a target, from conversations it writes itself. May be stopped and resumed.

    Of the configuration only model, dtype and device count here.
    """
    from eagle_chat.train import Job
    from eagle_chat.train import train as run_training

    given = filled(ctx, {"model": model, "dtype": dtype, "device": device}, WEIGHTS)
    options = replace(options_above(ctx), **{name: value for name, value in given.items() if value})
    job = Job(
        out, method.value, minutes, tokens, passes, data, vocab, steps, regression, seed, resume, dry_run
    )
    raise typer.Exit(run_training(options, job))


cli.command()(export)
cli.add_typer(watching)
cli.add_typer(around_models)
cli.add_typer(cache_command.commands, name="cache")
cli.add_typer(studying)
