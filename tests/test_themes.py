"""Theme files: complete, ordered by luminance, and explained when they are wrong."""

import asyncio
import math
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.color import Color

import themes
from eagle_chat.widgets.draft_tree import DraftTreeView
from eagle_chat.widgets.gauge import Gauge

IMPORTANCE = ("accepted", "bonus", "rejected", "unreachable", "edge")
NAMES = ["eagle-colourblind", "eagle-contrast", "eagle-dark", "eagle-light", "eagle-projector"]
READ = [
    *(f"tree-{role}" for role in ("root", "accepted", "bonus", "rejected", "pending", "score")),
    *(f"gauge-{role}" for role in ("figure", "gain", "label")),
    "footer-key-foreground",
]  # text that must be read
GLANCED = ["tree-unreachable", "tree-dropped"]  # text that may stay in the background
DRAWN = [f"gauge-{role}" for role in ("strip", "draft", "verify", "other")]
LEAST = {  # contrast of what is read, of what is glanced at, of bars, of lines
    "eagle-contrast": (7, 7, 4.5, 4.5),
    "eagle-projector": (7, 4.5, 4.5, 4.5),
}
USUAL = (4.5, 3, 3, 1.5)
# linear RGB as the three kinds of colour blindness see it; Machado, Oliveira and Fernandes 2009, severity 1
BLINDNESS = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
                   (0.004733, 0.691367, 0.303900)),
}  # fmt: skip


def specs() -> dict[str, themes.ThemeSpec]:
    return {spec.name: spec for spec in themes.load_themes()}


def linear(colour: str) -> list[float]:
    """Red, green and blue as amounts of light."""
    return [
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
        for channel in Color.parse(colour).normalized
    ]


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def seen(colour: str, blindness: str) -> list[float]:
    """The colour as somebody with that blindness sees it, red, green and blue from 0 to 1."""
    light = linear(colour)
    amounts = [sum(w * c for w, c in zip(row, light, strict=True)) for row in BLINDNESS[blindness]]
    return [max(0.0, min(1.0, amount)) ** (1 / 2.2) for amount in amounts]


def contrast(one: str, other: str) -> float:
    """Contrast ratio as WCAG defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_theme_is_found_and_complete() -> None:
    """TOML files left out of the package data, and variables left to another theme's colours."""
    assert specs().keys() == {*NAMES, "eagle-ansi"}
    assert [name for name in NAMES if not specs()[name].dark] == ["eagle-light", "eagle-projector"]
    for spec in specs().values():
        assert {*themes.VARIABLES, "footer-key-foreground"} <= spec.variables.keys(), spec.name
        assert set(spec.colors) == set(themes.COLORS), spec.name


@pytest.mark.parametrize("name", NAMES)
def test_importance_is_contrast(name: str) -> None:
    """Without hue (NO_COLOR, colour blindness) the accepted path must still be what stands out most."""
    spec = specs()[name]
    ratios = [contrast(spec.variables[f"tree-{role}"], spec.colors["background"]) for role in IMPORTANCE]
    assert ratios == sorted(ratios, reverse=True)
    assert all(above / below > 1.15 for above, below in pairwise(ratios)), ratios


@pytest.mark.parametrize("name", NAMES)
def test_text_is_readable(name: str) -> None:
    """Text below 3:1 is lost on a projector; what one reads needs 4.5:1, and where it is promised 7:1."""
    spec = specs()[name]
    background = spec.colors["background"]
    for variables, least in zip((READ, GLANCED, DRAWN, ["tree-edge"]), LEAST.get(name, USUAL), strict=True):
        for variable in variables:
            assert contrast(spec.variables[variable], background) >= least, variable
    for ground in ("background", "surface", "panel"):
        assert contrast(spec.colors["foreground"], spec.colors[ground]) >= 7
        assert contrast(spec.colors["primary"], spec.colors[ground]) >= 4.5


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("name", NAMES)
def test_states_look_different_to_everybody(name: str, blindness: str) -> None:
    """Accepted, the target's own and rejected in colours that only some can tell apart."""
    variables = specs()[name].variables
    colours = [seen(variables[f"tree-{role}"], blindness) for role in ("accepted", "bonus", "rejected")]
    for one, other in combinations(colours, 2):
        assert math.dist(one, other) > 0.15


def test_the_terminals_own_colours_stay_its_own() -> None:
    """A fixed colour in the ANSI theme, or one that is unreadable on black or on white in xterm's palette."""
    spec = specs()["eagle-ansi"]
    assert spec.to_textual().ansi
    ours = {*spec.colors.values(), *(spec.variables[name] for name in themes.VARIABLES)}
    assert ours == {"ansi_default", "ansi_magenta", "ansi_red"}
    for colour in ("#cd00cd", "#cd0000"):
        assert min(contrast(colour, "#000000"), contrast(colour, "#ffffff")) >= 3


@pytest.mark.parametrize("theme", [*NAMES, "eagle-ansi", "nord", "textual-light", "ansi-dark"])
def test_variables_exist_under_every_theme(theme: str) -> None:
    """A variable missing under one theme stops the app at startup with a CSS error."""

    class ThemedApp(App):
        def get_theme_variable_defaults(self) -> dict[str, str]:
            return themes.tree_variable_defaults(self.current_theme.dark)

        def compose(self) -> ComposeResult:
            yield DraftTreeView()
            yield Gauge()

    async def main() -> None:
        app = ThemedApp()
        for spec in themes.load_themes():
            app.register_theme(spec.to_textual())
        app.theme = theme
        async with app.run_test(size=(80, 24)):
            assert set(themes.VARIABLES) <= app.theme_variables.keys()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("name = ", "cannot be read"),
        ('[colors]\nprimary = "#123456"', "'name'"),
        ('name = "x"', "'colors.primary'"),
        ('name = "x"\ndark = "yes"\n[colors]\nprimary = "#123456"', "'dark'"),
        ('name = "x"\ncolors = 3', "'colors'"),
        ('name = "x"\n[colors]\nprimary = "blue-ish"', "'colors.primary'"),
        ('name = "x"\n[colors]\nprimary = "#123456"\nprimry = "#123456"', "'colors.primry'"),
        ('name = "x"\n[colors]\nprimary = "#123456"\n[variables]\ntree-root = 3', "'variables.tree-root'"),
        ('name = "x"\n[colors]\nprimary = "#123456"\n[variables]\ntree-rot = "#fff"', "'variables.tree-rot'"),
        ('name = "x"\nansi = true\n[colors]\nprimary = "#123456"', "'colors.primary'"),
        ('name = "x"\nauthor = "me"\n[colors]\nprimary = "#123456"', "'author'"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    """An unexplained traceback, or a theme silently half applied."""
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(themes.ThemeError) as error:
        themes.read_theme(tmp_path / "bad.toml")
    assert "bad.toml" in str(error.value)
    assert named in str(error.value)
