"""Which options go with `--server`: it brings its own weights and decodes as it was started."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, get_type_hints

from eagle_chat.configuration import is_given
from eagle_chat.errors import UsageError
from eagle_chat.options import MODEL, TREE, Options

if TYPE_CHECKING:
    import typer

NO_COMPARISON = "A server decodes as it was started: there is nothing to compare."


def for_server(ctx: typer.Context, options: Options) -> Options:
    """The options without those that environment and configuration say of local models.

    Given on the command line, one of them raises UsageError. The model is empty where none was named: then
    the server's own is taken.
    """
    local = _local_only()
    for name, long in local.items():
        if is_given(ctx, name):
            raise UsageError(
                f"{long} does not go with --server: a server decodes as it was started; leave one out"
            )
    named = is_given(ctx, "model") or (not is_given(ctx, "server") and options.model != Options.model)
    defaults = {name: getattr(Options, name) for name in local}
    return replace(options, **defaults, model=options.model if named else "")


def _local_only() -> dict[str, str]:
    """By name, the long options about weights and trees on this machine."""
    hints = get_type_hints(Options, include_extras=True)
    panels = {field.name: hints[field.name].__metadata__[0].rich_help_panel for field in fields(Options)}
    return {
        name: f"--{name.replace('_', '-')}"
        for name, panel in panels.items()
        if panel in (MODEL, TREE) and name != "model"
    }
