"""The options of `eagle-chat bench` that no other command has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eagle_chat.methods import Method
from eagle_chat.options import MODEL
from eagle_chat.questions import ALL, TASKS

Heads = Annotated[
    list[str] | None,
    typer.Option(
        help="Draft head or draft model: alias, hub id or folder. For several methods METHOD=FOLDER, "
        "repeated. Default: the model's own.",
        rich_help_panel=MODEL,
    ),
]

Tasks = Annotated[
    str | None,
    typer.Option(
        metavar=f"{ALL}|NAME,…",
        help=f"Questions that come with eagle-chat: {', '.join(TASKS)}.",
        show_default=False,
    ),
]
Methods = Annotated[
    str | None,
    typer.Option(
        metavar=f"{ALL}|NAME,…",
        help=f"What is measured: {', '.join(Method)}, transformers (its generate), transformers-pld (its "
        "prompt lookup); all is whatever can run here. Ratios and the comparison of texts want none, plain "
        "decoding, or transformers among them. Default: none, what a chat drafts by, transformers.",
        show_default=False,
    ),
]
Temperatures = Annotated[
    str | None,
    typer.Option(metavar="T,…", help="Temperatures. Default: --temperature.", show_default=False),
]
Repeats = Annotated[int, typer.Option(min=1, help="Ask everything this often.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the figures to this file, too.")]
Markdown = Annotated[Path | None, typer.Option(help="Write a table of ratios to this file, for a README.")]
Resume = Annotated[
    Path | None,
    typer.Option(metavar="FILE.jsonl", help="Keep replies in this file, and go on where it ends."),
]
