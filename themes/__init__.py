"""Colour themes as TOML files, and what reads them: ours from this package, a user's from anywhere."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.theme import Theme

COLORS = (
    "primary",
    "secondary",
    "accent",
    "warning",
    "error",
    "success",
    "foreground",
    "background",
    "surface",
    "panel",
)
VARIABLES = (  # the CSS variables that our widgets use; every theme of ours sets them all
    "tree-root",
    "tree-accepted",
    "tree-bonus",
    "tree-rejected",
    "tree-unreachable",
    "tree-dropped",
    "tree-pending",
    "tree-score",
    "tree-edge",
    "gauge-figure",
    "gauge-gain",
    "gauge-label",
    "gauge-strip",
    "gauge-draft",
    "gauge-verify",
    "gauge-other",
)
_COLOR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_ANSI = re.compile(r"ansi_(?:default|(?:bright_)?(?:black|red|green|yellow|blue|magenta|cyan|white))")
_OUR_PREFIXES = ("tree-", "gauge-")


class ThemeError(ValueError):
    """A theme file that cannot be used; the message names the file and the key."""


@dataclass(frozen=True, slots=True)
class ThemeSpec:
    """One theme: plain data until `to_textual`."""

    name: str
    dark: bool
    colors: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    ansi: bool = False  # the terminal's own 16 colours; all colours are named, none is mixed

    def to_textual(self) -> "Theme":
        """The theme as Textual registers it."""
        from textual.theme import Theme

        given = {"dark": self.dark, "ansi": self.ansi, "variables": dict(self.variables), **self.colors}
        return Theme(self.name, **given)  # type: ignore[arg-type]


def load_themes() -> list[ThemeSpec]:
    """Our themes, in order of file name."""
    return list(_shipped())


def tree_variable_defaults(dark: bool = True) -> dict[str, str]:
    """Every CSS variable our widgets use, for `App.get_theme_variable_defaults`: without one, CSS fails."""
    spec = next(spec for spec in _shipped() if spec.name == ("eagle-dark" if dark else "eagle-light"))
    return {name: spec.variables[name] for name in VARIABLES}


def read_theme(path: Path | Traversable) -> ThemeSpec:
    """One theme file, checked; raises `ThemeError` with one sentence."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ThemeError(f"{path}: cannot be read as a theme: {error}") from error
    for key in data.keys() - {"name", "dark", "ansi", "colors", "variables"}:
        raise ThemeError(f"{path}: unknown key '{key}'")
    name = data.get("name")
    if not isinstance(name, str) or not name:
        raise ThemeError(f"{path}: 'name' must be a text")
    dark, ansi = _switch(path, data, "dark", True), _switch(path, data, "ansi", False)
    colors = _table(path, data, "colors")
    for key in colors.keys() - set(COLORS):
        raise ThemeError(f"{path}: unknown key 'colors.{key}'; known are {', '.join(COLORS)}")
    if "primary" not in colors:
        raise ThemeError(f"{path}: 'colors.primary' is missing")
    variables = _table(path, data, "variables")
    _check_colors(path, colors, variables, ansi)
    return ThemeSpec(name, dark, colors, variables, ansi)


def _switch(path: Path | Traversable, data: dict[str, object], key: str, default: bool) -> bool:
    value = data.get(key, default)
    if not isinstance(value, bool):
        raise ThemeError(f"{path}: '{key}' must be true or false")
    return value


def _table(path: Path | Traversable, data: dict[str, object], key: str) -> Mapping[str, str]:
    table = data.get(key, {})
    if not isinstance(table, dict):
        raise ThemeError(f"{path}: '{key}' must be a table")
    for inner, value in table.items():
        if not isinstance(value, str):
            raise ThemeError(f"{path}: '{key}.{inner}' must be a text")
    return MappingProxyType(table)


def _check_colors(
    path: Path | Traversable, colors: Mapping[str, str], variables: Mapping[str, str], ansi: bool
) -> None:
    """Base colours and our variables are of one kind; Textual's own may be anything it understands."""
    pattern, example = (_ANSI, "ansi_blue") if ansi else (_COLOR, "#5aa9f5")
    ours = {f"variables.{key}": value for key, value in variables.items() if key.startswith(_OUR_PREFIXES)}
    for key, value in ({f"colors.{key}": value for key, value in colors.items()} | ours).items():
        if not pattern.fullmatch(value):
            raise ThemeError(f"{path}: '{key}' must be a colour such as {example}, not '{value}'")
        if key in ours and key.removeprefix("variables.") not in VARIABLES:
            raise ThemeError(f"{path}: unknown key '{key}'; known are {', '.join(VARIABLES)}")


@cache
def _shipped() -> tuple[ThemeSpec, ...]:
    paths = sorted(
        (path for path in files(__name__).iterdir() if path.name.endswith(".toml")),
        key=lambda path: path.name,
    )
    return tuple(read_theme(path) for path in paths)
