"""`eagle-chat config`: what is configured, where it comes from, and the file to change it in."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from eagle_chat.configuration import (
    KEYS,
    PREFIX,
    WEIGHTS,
    Found,
    config_path,
    configurable,
    is_given,
    settings,
)
from eagle_chat.errors import EagleChatError
from eagle_chat.look import chosen

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
DEFAULT = "default"
HEAD = f"""# Configuration of eagle-chat. Lines that begin with # are only examples; remove it to set a value.
# Options on the command line and variables such as {PREFIX}MODEL win over this file.
# `bench`, `evaluate` and `train` take nothing from it but {", ".join(WEIGHTS)}.
# Themes of your own go into the folder themes beside this file.
"""

commands = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    help="Show, find or edit the configuration.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@commands.callback()
def config(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show every setting of the chat and where its value comes from."""
    if ctx.invoked_subcommand is None:
        _show(ctx, as_json)


@commands.command()
def show(ctx: typer.Context, as_json: AsJson = False) -> None:
    """The same: every setting and where its value comes from."""
    _show(ctx, as_json or bool(ctx.parent and ctx.parent.params.get("as_json")))


@commands.command()
def path() -> None:
    """Print where the configuration file is, or would be."""
    print(config_path())


@commands.command()
def edit(ctx: typer.Context) -> None:
    """Open the configuration file in $VISUAL or $EDITOR; a new one explains itself."""
    file = config_path()
    if not file.exists():
        _write_template(file, ctx)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode
    except (OSError, ValueError) as error:
        raise EagleChatError(
            f"the editor '{editor}' cannot be started ({error}): set EDITOR, or open {file} yourself"
        ) from None
    if code:
        raise EagleChatError(f"the editor '{editor}' ended with code {code}: {file} is as it left it")
    settings(ctx)  # a mistake is best told at once


def current(ctx: typer.Context) -> dict[str, Found]:
    """Every setting by its key."""
    outside = settings(ctx).options
    root = ctx.find_root()
    found: dict[str, Found] = {}
    for key, parameter in configurable(ctx).items():
        name = parameter.name
        if is_given(ctx, name):
            found[key] = Found(root.params[name], "command line")
        else:
            found[key] = outside.get(name, Found(root.params[name], DEFAULT))
    theme, look = chosen(ctx, found["theme"].value, ascii_only=False)
    if theme is None and (remembered := look.remembered()):
        found["theme"] = Found(remembered, "chosen in the app")
    return found


def _show(ctx: typer.Context, as_json: bool) -> None:
    file, found, keys = config_path(), current(ctx), settings(ctx).keys
    if as_json:
        values = {key: {"value": each.value, "source": each.source} for key, each in found.items()}
        report = {"path": str(file), "exists": file.exists(), "settings": values, KEYS: dict(keys)}
        print(json.dumps(report))
        return
    rows = [(key, _shown(each.value), each.source) for key, each in found.items()]
    rows += [(f"{KEYS}.{action}", key, str(file)) for action, key in keys.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for key, value, source in rows:
        print(f"{key:{widths[0]}}  {value:{widths[1]}}  {source}")
    print(f"{file}{'' if file.exists() else ' (no such file)'}", file=sys.stderr)


def _shown(value: object) -> str:
    """As in the file; nothing chosen is a dash."""
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write_template(file: Path, ctx: typer.Context) -> None:
    lines = [HEAD]
    for key, parameter in configurable(ctx).items():
        lines.append(f"# {parameter.help}\n# {key} = {_example(parameter)}\n")
    lines.append(f'[{KEYS}]\n# app.compare = "f6"\n')
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines), encoding="utf-8")
    except OSError as error:
        raise EagleChatError(f"{file} cannot be written ({error.strerror}): set EAGLE_CHAT_CONFIG") from None


def _example(parameter: Any) -> str:
    """The default, or what another value would look like, as TOML."""
    default = parameter.default
    if isinstance(default, (bool, int, float)):
        return str(default).lower()
    return "…" if default is None else json.dumps(str(default))
