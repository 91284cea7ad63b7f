"""Commands for watching and learning: the race and the tour. No torch or textual before they are needed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from eagle_chat.configuration import filled
from eagle_chat.options import Options
from eagle_chat.sharing_options import with_options

watching = typer.Typer()

Theme = Annotated[
    str | None,
    typer.Option(
        help="Colours: eagle-dark, -light, -contrast, -colourblind, -projector, -ansi (the terminal's own), "
        "one of Textual's, or yours. Default: the one chosen last.",
        show_default=False,
    ),
]
Ascii = Annotated[bool, typer.Option("--ascii", help="Draw with ASCII characters only.")]


@watching.command()
def replay(  # noqa: PLR0913 - one for each option
    ctx: typer.Context,
    *,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE [FILE]", help="Traces; two are shown side by side.")
    ],
    speed: Annotated[float, typer.Option(help="0.1, 0.25, 0.5, 1 (as recorded), 2 or 4.")] = 1.0,
    step: Annotated[bool, typer.Option("--step", help="Start paused, to go on round by round.")] = False,
    pause_on_markers: Annotated[
        bool, typer.Option("--pause-on-markers", help="Stop where a lesson says something.")
    ] = False,
    theme: Theme = None,
    ascii_only: Ascii = False,
) -> None:
    """Replay what `eagle-chat run --trace` recorded, round by round: no model, no GPU.

    Two traces race each other on one clock. Where standard output is no terminal the text is printed.
    """
    from eagle_chat.look import chosen
    from eagle_chat.replay import Job
    from eagle_chat.replay import replay as run_replay

    look = filled(ctx, {"theme": theme, "ascii_only": ascii_only}, ("theme", "ascii_only"))
    raise typer.Exit(run_replay(Job(files, speed, step, pause_on_markers, *chosen(ctx, **look))))


@watching.command()
@partial(with_options, max_new_tokens=128)
def race(  # noqa: PLR0913 - one for each option
    ctx: typer.Context,
    *,
    options: Options,
    prompt: Annotated[str | None, typer.Argument(help="The prompt; standard input without one.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Who races: two methods as in --method, of the same head, of those that ship with the model "
            "or of none. Default: what the head was made for, against none.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of the replay.")
    ] = False,
    trace_to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep both traces in this folder.")
    ] = None,
    theme: Theme = None,
    ascii_only: Ascii = False,
) -> None:
    """Answer a prompt with two methods, one after the other, then watch both side by side on one clock.

    Same seed, same machine, one model in memory. Without a terminal the result card is printed. Replies end
    after 128 tokens unless --max-new-tokens says otherwise: a small model repeats itself by and by, which
    flatters whoever drafts.
    """
    from eagle_chat.headless import read_prompt
    from eagle_chat.look import chosen
    from eagle_chat.race import Job
    from eagle_chat.race import race as run_race

    look = chosen(ctx, theme, ascii_only)
    raise typer.Exit(run_race(options, Job(read_prompt(prompt), methods, as_json, trace_to, *look)))


@watching.command()
def tour(
    ctx: typer.Context,
    chapter: Annotated[int | None, typer.Argument(help="Begin with this one.", show_default=False)] = None,
    theme: Theme = None,
    ascii_only: Ascii = False,
) -> None:
    """See in eight short chapters how speculative decoding works, on recorded rounds: no model, no GPU.

    Where standard output is no terminal the lesson is printed as text.
    """
    from eagle_chat.look import chosen
    from eagle_chat.tour import Job
    from eagle_chat.tour import tour as run_tour

    look = filled(ctx, {"theme": theme, "ascii_only": ascii_only}, ("theme", "ascii_only"))
    raise typer.Exit(run_tour(Job(chapter, *chosen(ctx, **look))))
