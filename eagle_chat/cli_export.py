"""The options of `eagle-chat export`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class View(StrEnum):
    """How a draft tree is drawn."""

    LADDER = "ladder"
    DENDROGRAM = "dendrogram"
    ICICLE = "icicle"
    OUTLINE = "outline"


def export(
    trace: Annotated[Path, typer.Argument(help="What `eagle-chat run --trace` recorded.", dir_okay=False)],
    *,
    to: Annotated[
        Path,
        typer.Option(
            help="What is written, by its ending: .svg or .png (one round's tree), .html (the reply with all "
            "trees), .md, .jsonl, .jsonl.gz (the trace, packed).",
            dir_okay=False,
        ),
    ],
    number: Annotated[
        int | None,
        typer.Option(
            "--round", min=0, help="Of .svg and .png. Default: the most telling.", show_default=False
        ),
    ] = None,
    width: Annotated[int, typer.Option(min=40, max=400, help="Of a tree, in characters.")] = 120,
    view: Annotated[
        View | None,
        typer.Option(help="Of a tree. Default: by its depth and the width.", show_default=False),
    ] = None,
    theme: Annotated[
        str | None, typer.Option(help="Colours: one of our themes.", show_default="eagle-dark")
    ] = None,
) -> None:
    """Make a picture, a page or a text of a recorded reply: no model, no GPU."""
    from eagle_chat.export import Job
    from eagle_chat.export import export as run_export

    raise typer.Exit(run_export(Job(trace, to, number, width, view.value if view else None, theme)))
