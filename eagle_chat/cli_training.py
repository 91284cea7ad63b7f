"""`eagle-chat train` on the command line. No torch before it is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from eagle_chat.configuration import WEIGHTS, filled, is_given
from eagle_chat.methods import HeadKind
from eagle_chat.options import Dtype, finite
from eagle_chat.sharing_options import options_above


def train(  # noqa: PLR0913 - one for each option
    ctx: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the head and all that leads to it.", file_okay=True)],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Target: alias, hub id or folder.", show_default=False)
    ] = None,
    method: Annotated[HeadKind | None, typer.Option(help="Kind of head.", show_default="eagle2")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.1, callback=finite, help="As much as can be done in about this time."),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of conversations to train on. Default: a million.")
    ] = None,
    passes: Annotated[
        float | None,
        typer.Option(min=0.01, callback=finite, help="How often each token is trained on. Default: 4."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help='Own conversations: {"messages": [{"role", "content"}, …]} a line. Default: the target\'s.'
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            help="Folder of another run of this target, whose conversations are trained on in place of new "
            "ones. It is only read; features that it lacks come to --out.",
        ),
    ] = None,
    vocab: Annotated[
        int | None, typer.Option(min=16, help="Size of the draft vocabulary.", show_default="8192")
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(min=1, max=8, help="Of a draft model. Default: 1.", show_default=False),
    ] = None,
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
            callback=finite,
            help="Weight of the distance to the target's features in the loss. Default: 5 for eagle2.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**31 - 1, help="Same seed, same run.", show_default="0")
    ] = None,
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
        out,
        method.value if method else None,
        minutes,
        tokens,
        passes,
        data,
        corpus,
        vocab,
        layers,
        steps,
        regression,
        seed,
        resume,
        dry_run,
        options.model if is_given(ctx, "model") else None,
        options.dtype.value if is_given(ctx, "dtype") else None,
    )
    raise typer.Exit(run_training(options, job))
