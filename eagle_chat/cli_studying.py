"""The command for the paper's figures. No torch before it is needed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from eagle_chat.cli_watching import Ascii
from eagle_chat.configuration import WEIGHTS
from eagle_chat.options import Options
from eagle_chat.sharing_options import with_options
from eagle_chat.study import What

studying = typer.Typer()


@studying.command()
@partial(with_options, configured=WEIGHTS, max_new_tokens=128)
def study(  # noqa: PLR0913 - one for each option
    ctx: typer.Context,
    *,
    options: Options,
    what: Annotated[
        What,
        typer.Argument(
            metavar="WHAT",
            help="calibration: confidence against acceptance. positions: acceptance in EAGLE's fixed tree, "
            "by context. ablation: τ without value, without rerank, and with EAGLE's tree. size: τ and speed "
            "by nodes, depth and beam. vocabulary: what a draft vocabulary covers, by its size.",
        ),
    ],
    more: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="More files of questions, as in --questions *.jsonl."),
    ] = None,
    questions: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE [FILE]...",
            help='Questions of a task: a JSON object with "turns" (texts) a line. May be repeated. Default: '
            "those that come with the project.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first questions of each file.")] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the figure to this file, too.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of figure and table.")
    ] = False,
    ascii_only: Ascii = False,
) -> None:
    """Reproduce a figure of the EAGLE-2 paper on this machine, drawn live while it is measured.

    All contenders answer the same questions, one right after the other; the
    turns of a question are one conversation. The seed is 0 unless given. Ctrl+C
    prints what is there. Of the configuration only model, head, dtype and device
    count here.
    """
    from eagle_chat.study.run import Job
    from eagle_chat.study.run import study as run_study

    files = [*(questions or ()), *(more or ())]
    raise typer.Exit(run_study(options, Job(what, files, limit, ascii_only, svg, as_json)))
