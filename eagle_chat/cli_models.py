"""Commands around models: what there is and what fits, fetching, deleting, the doctor. No torch."""

from __future__ import annotations

from typing import Annotated

import typer

around_models = typer.Typer()

Force = Annotated[bool, typer.Option("--force", help="Fetch also what does not seem to fit here.")]


@around_models.command()
def models(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of the table.")
    ] = False,
) -> None:
    """The models that have a short name: size, draft heads, and whether they fit here. Asks nobody."""
    from eagle_chat.model_list import show_models

    show_models(as_json)


@around_models.command()
def pull(
    model: Annotated[str, typer.Argument(metavar="ALIAS", help="A short name, or a hub id.")],
    force: Force = False,
) -> None:
    """Fetch a model and its draft heads, sizes first. After Ctrl+C the same command fetches the rest."""
    from eagle_chat.pull import pull as run_pull

    run_pull(model, force=force)


@around_models.command()
def doctor(
    perf: Annotated[
        bool, typer.Option("--perf", help="Load the default model and decode for two seconds.")
    ] = False,
    check_hub: Annotated[bool, typer.Option("--check-hub", help="Ask the hub whether it answers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check this machine and terminal, with a next step for what is wrong. Exit code 1 if something is.

    Without --check-hub nothing leaves this machine; without --perf PyTorch is looked at, not started.
    """
    from eagle_chat.doctor import examine

    raise typer.Exit(examine(perf=perf, check_hub=check_hub, as_json=as_json))
