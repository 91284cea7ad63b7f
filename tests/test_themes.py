"""Theme files: complete, ordered by luminance, and explained when they are wrong."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.color import Color

import themes
from eagle_chat.widgets.draft_tree import DraftTreeView
from eagle_chat.widgets.gauge import Gauge

IMPORTANCE = ("accepted", "bonus", "rejected", "unreachable", "edge")


def specs() -> dict[str, themes.ThemeSpec]:
    return {spec.name: spec for spec in themes.load_themes()}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    channels = [
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
        for channel in Color.parse(colour).normalized
    ]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio as WCAG defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_both_themes_are_found() -> None:
    """TOML files left out of the package data would be missing in the wheel only."""
    assert specs().keys() >= {"eagle-dark", "eagle-light"}
    assert specs()["eagle-dark"].dark
    assert not specs()["eagle-light"].dark


@pytest.mark.parametrize("name", ["eagle-dark", "eagle-light"])
def test_importance_is_contrast(name: str) -> None:
    """Without hue (NO_COLOR, colour blindness) the accepted path must still be what stands out most."""
    spec = specs()[name]
    ratios = [contrast(spec.variables[f"tree-{role}"], spec.colors["background"]) for role in IMPORTANCE]
    assert ratios == sorted(ratios, reverse=True)
    assert all(above / below > 1.15 for above, below in pairwise(ratios))


@pytest.mark.parametrize("name", ["eagle-dark", "eagle-light"])
def test_text_is_readable(name: str) -> None:
    """Text below 3:1 is lost on a projector; what one reads needs 4.5:1."""
    spec = specs()[name]
    background = spec.colors["background"]
    for role in ("root", "accepted", "bonus", "rejected", "score"):
        assert contrast(spec.variables[f"tree-{role}"], background) >= 4.5
    for role in ("unreachable", "dropped"):
        assert contrast(spec.variables[f"tree-{role}"], background) >= 3


@pytest.mark.parametrize("name", ["eagle-dark", "eagle-light"])
def test_accepted_and_bonus_differ_without_red_and_green(name: str) -> None:
    """Blue against orange survives the common colour blindnesses."""
    accepted = Color.parse(specs()[name].variables["tree-accepted"])
    bonus = Color.parse(specs()[name].variables["tree-bonus"])
    assert accepted.b > accepted.r
    assert bonus.r > bonus.b


@pytest.mark.parametrize("theme", ["eagle-dark", "eagle-light", "nord", "textual-light", "ansi-dark"])
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


def test_a_user_theme_replaces_ours(tmp_path: Path) -> None:
    """A user's own eagle-dark must win, once."""
    (tmp_path / "mine.toml").write_text('name = "eagle-dark"\n[colors]\nprimary = "#123456"\n')
    loaded = themes.load_themes(tmp_path)
    assert [spec.colors["primary"] for spec in loaded if spec.name == "eagle-dark"] == ["#123456"]
    assert themes.load_themes(tmp_path / "absent") == themes.load_themes()
    assert themes.tree_variable_defaults()["tree-root"] == specs()["eagle-dark"].variables["tree-root"]


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
        ('name = "x"\nauthor = "me"\n[colors]\nprimary = "#123456"', "'author'"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    """An unexplained traceback, or a theme silently half applied."""
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(themes.ThemeError) as error:
        themes.load_themes(tmp_path)
    assert "bad.toml" in str(error.value)
    assert named in str(error.value)
