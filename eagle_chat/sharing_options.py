"""How a command gets the options of `eagle_chat.options`, wherever they were given."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, get_type_hints

import typer

from eagle_chat.configuration import filled, is_given
from eagle_chat.options import Options


def options_above(ctx: typer.Context) -> Options:
    """What was given on the command line before the subcommand; defaults for the rest."""
    above = ctx.parent.obj if ctx.parent is not None else None
    return above if isinstance(above, Options) else Options()


def with_options(
    command: Callable[..., Any],
    configured: Collection[str] | None = None,
    repeated: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> Callable[..., Any]:
    """Give a command every option of `Options`; it receives them as its keyword `options`.

    Options given before a subcommand count for it too, unless it is given its own. What is given nowhere
    comes from environment and configuration, or only those that are `configured`. `defaults` are the
    command's own where they differ from those of `Options`, as are the annotations of what may be
    `repeated`, which arrives as lines of one text.
    """
    hints = get_type_hints(Options, include_extras=True) | dict(repeated or {})
    names = [field.name for field in fields(Options)]
    own_hints = get_type_hints(command, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [
        parameter.replace(kind=keyword, annotation=own_hints[parameter.name])
        for parameter in inspect.signature(command).parameters.values()
        if parameter.name not in ("ctx", "options")
    ]
    shared = [
        inspect.Parameter(name, keyword, default=default, annotation=hints[name])
        for name, default in ({field.name: field.default for field in fields(Options)} | defaults).items()
    ]

    @functools.wraps(command)
    def wrapper(ctx: typer.Context, **values: Any) -> Any:
        if ctx.invoked_subcommand is None:  # otherwise that one asks for what it takes
            values = filled(ctx, values, values if configured is None else configured)
        if ctx.parent is not None:
            above = options_above(ctx)
            values |= {name: getattr(above, name) for name in names if _only_above(ctx, name)}
        options = Options(**{name: _one(values.pop(name)) for name in names})
        if options.server is not None:
            from eagle_chat.server.options import for_server

            options = for_server(ctx, options)
        ctx.obj = options
        return command(ctx, options=options, **values)

    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *own, *shared]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def _one(value: Any) -> Any:
    """Of an option that was repeated: lines of one text."""
    return "\n".join(value) if isinstance(value, list) else value


def _only_above(ctx: Any, name: str) -> bool:
    """Given before the subcommand and not to it."""
    return is_given(ctx.parent, name) and ctx.get_parameter_source(name).name == "DEFAULT"
