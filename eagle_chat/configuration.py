"""Where options come from besides the command line: the environment, then the user's configuration file.

Its keys are the long options of the chat. Whatever is given on the command line wins, then
`EAGLE_CHAT_<OPTION>`, then the file, then the default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import platformdirs
import typer

from eagle_chat.errors import UsageError

VARIABLE = "EAGLE_CHAT_CONFIG"
PREFIX = "EAGLE_CHAT_"
KEYS = "keys"  # the table that gives keys to actions
WEIGHTS = ("model", "head", "dtype", "device")
"""What a measurement takes from outside the command line: what is measured, and never how."""


def config_path() -> Path:
    """The user's configuration file, which need not exist."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else platformdirs.user_config_path("eagle-chat") / "config.toml"


@dataclass(frozen=True, slots=True)
class Found:
    """A value and where it was found."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What environment and file say; options by the name of their parameter, in Python's spelling."""

    options: Mapping[str, Found] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)  # by the id of a binding


def configurable(ctx: typer.Context) -> dict[str, Any]:
    """The parameters of the chat that can be configured, by their long option without its dashes."""
    parameters = ctx.find_root().command.params
    return {
        max(parameter.opts, key=len).removeprefix("--"): parameter
        for parameter in parameters
        if parameter.expose_value and not parameter.is_eager
    }


def settings(ctx: typer.Context) -> Settings:
    """What environment and file say. Raises UsageError with file and key, or the variable."""
    known = configurable(ctx)
    path = config_path()
    table = _read(path)
    keys = _keys(path, table.pop(KEYS, {}))
    found: dict[str, Found] = {}
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"{path}: there is no setting '{key}'; {nearest(key, [*known, KEYS])}")
        if isinstance(value, (dict, list)):
            raise UsageError(f"{path}: '{key}' must be a single value")
        found[known[key].name] = Found(_checked(ctx, known[key], value, f"{path}: '{key}'"), str(path))
    for key, parameter in known.items():
        variable = variable_of(key)
        if value := os.environ.get(variable):
            found[parameter.name] = Found(_checked(ctx, parameter, value, variable), variable)
    return Settings(found, keys)


def variable_of(key: str) -> str:
    """The environment variable of an option."""
    return PREFIX + key.upper().replace("-", "_")


def is_given(ctx: Any, name: str) -> bool:
    """Whether a parameter was given on the command line, to this command or before it."""
    while ctx is not None:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            return True
        ctx = ctx.parent
    return False


def filled(ctx: typer.Context, values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """`values` with those of `names` that were not given on the command line taken from outside it."""
    outside = settings(ctx).options
    wanted = [name for name in names if name in values and name in outside and not is_given(ctx, name)]
    return {**values, **{name: outside[name].value for name in wanted}}


def nearest(name: str, known: Iterable[str]) -> str:
    """The second half of a sentence about an unknown name."""
    known = sorted(known)
    close = get_close_matches(name.replace("_", "-"), known, 1) or get_close_matches(name, known, 1)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: the configuration cannot be read: {error}") from None


def _keys(path: Path, table: object) -> dict[str, str]:
    """Keys by action; whether there are such keys and actions is known where the screen is."""
    if not isinstance(table, dict):
        raise UsageError(f"{path}: '{KEYS}' must be a table, as in [keys]")
    flat: dict[str, str] = {}
    for name, value in table.items():  # without quotes, TOML reads app.compare as compare inside of app
        inner = value.items() if isinstance(value, dict) else ()
        for action, key in [(f"{name}.{rest}", key) for rest, key in inner] or [(name, value)]:
            if not isinstance(key, str) or not key.strip():
                raise UsageError(f"{path}: '{KEYS}.{action}' must be a key in quotes, such as \"ctrl+r\"")
            flat[action] = key
    return flat


def _checked(ctx: typer.Context, parameter: Any, value: object, where: str) -> Any:
    """The value as the command line would take it."""
    switch = parameter.is_flag
    if switch != isinstance(value, bool) and not (switch and isinstance(value, str)):
        raise UsageError(f"{where} must be {'true or false' if switch else 'a text or a number'}")
    try:
        return parameter.process_value(ctx, value if switch and isinstance(value, bool) else str(value))
    except typer.BadParameter as error:
        reason = error.message.removeprefix("Value error, ").rstrip(".")
        raise UsageError(f"{where}: {reason}") from None
