"""Pictures of draft trees and screens: records and screenshots in, SVG text out, and SVG as PNG.

Every piece of a row says where it begins and how long it is, so that lines and columns meet whatever
monospaced font draws them. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape, unescape

from rich.cells import cell_len

import themes
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import RoundDone
from eagle_chat.layout import dendrogram
from eagle_chat.layout.picture import Picture, View
from eagle_chat.layout.rows import Row, row_text, row_width
from eagle_chat.notable import why_notable
from eagle_chat.records import RoundRecord

FONTS = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
SIZE = 16.0  # of the font
CELL, LINE, BASE = 0.602 * SIZE, 1.164 * SIZE, 0.928 * SIZE  # DejaVu's: vertical lines meet from row to row
PADDING = 12.0
SPARE = 10  # rows beside those of the tree: heading, notes, words
STYLES = {  # of a role: the theme's colour, and what is seen without colour; as in `draft_tree_look`
    "root": ("tree-root", "font-weight:bold"),
    "accepted": ("tree-accepted", "font-weight:bold"),
    "bonus": ("tree-bonus", "font-weight:bold;text-decoration:underline"),
    "rejected": ("tree-rejected", ""),
    "unreachable": ("tree-unreachable", ""),
    "dropped": ("tree-dropped", "font-style:italic"),
    "pending": ("tree-pending", ""),
    "edge": ("tree-edge", ""),
    "edge-accepted": ("tree-accepted", ""),
    "score": ("tree-score", ""),
    "label": ("tree-unreachable", ""),
    "heading": ("tree-score", ""),
}
_SCREEN_CELL = 12.2  # of the screenshots that Textual makes


@dataclass(frozen=True, slots=True)
class Colours:
    """What a theme gives to a picture."""

    background: str
    foreground: str
    variables: dict[str, str]  # all that the theme names

    @property
    def style_sheet(self) -> str:
        """A class for every role, below the class `tree`."""
        rules = [f".tree text{{font-family:{FONTS};font-size:{SIZE:g}px;white-space:pre}}"]
        for role, (variable, style) in STYLES.items():
            rules.append(f".tree .{role}{{fill:{self.variables[variable]};{style}}}")
        return "\n".join(rules)


def colours(theme: str | None = None) -> Colours:
    """The colours of one of our themes. Raises UsageError where there is none of that name."""
    shipped = {spec.name: spec for spec in themes.load_themes()}
    spec = shipped.get(theme or "eagle-dark")
    if spec is None:
        raise UsageError(f"no theme called {theme!r} has colours for pictures: {', '.join(sorted(shipped))}")
    usual = shipped["eagle-dark" if spec.dark else "eagle-light"]
    found = {**usual.colors, **usual.variables} | {
        name: colour for name, colour in {**spec.colors, **spec.variables}.items() if colour.startswith("#")
    }  # a terminal's own colours have no number
    return Colours(found["background"], found["foreground"], found)


def most_telling(rounds: Sequence[RoundDone]) -> int:
    """The round to show where only one is: a notable one before others, then the longest accepted path."""
    records = [done.record for done in rounds]

    def tells(index: int) -> tuple[bool, int, int]:
        record = records[index]
        notable = index > 0 and why_notable(record, records[index - 1]) is not None
        return notable and len(record.tree.tokens) > 1, record.accepted, len(record.tree.tokens)

    return max(range(len(records)), key=lambda index: (tells(index), -index))


def tree_rows(
    record: RoundRecord, width: int, view: View | None = None, node: int | None = None
) -> list[Row]:
    """Heading, the whole tree and its words; without a view the one that suits the width."""
    if view is None:
        depth = max(*record.tree.depths(), len(record.tree.drawn), 0)
        view = "dendrogram" if dendrogram.readable(depth, width) else "ladder"
    picture = Picture(record, view, width, len(record.tree.tokens) + SPARE, ascii_only=False)
    tree = picture.tree()
    while tree and not row_text(tree[-1]).strip():
        tree.pop()
    return [picture.heading(None), *tree, *picture.words(node, tree)]


def tree_svg(rows: Sequence[Row], palette: Colours, title: str) -> str:
    """The rows as a picture of its own."""
    return _svg(rows, title, f"<style>{palette.style_sheet}</style>", palette.background)


def inner_svg(rows: Sequence[Row], title: str) -> str:
    """The same for a page that has the style sheet and the background."""
    return _svg(rows, title, "", None)


def _svg(rows: Sequence[Row], title: str, style: str, background: str | None) -> str:
    width = CELL * max(map(row_width, rows), default=0) + 2 * PADDING
    height = LINE * len(rows) + 2 * PADDING
    ground = f'<rect width="100%" height="100%" fill="{background}"/>' if background else ""
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    body = "\n".join(piece for y, row in enumerate(rows) for piece in _pieces(row, y))
    return (
        f'<svg class="tree" xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        f"<title>{escape(title)}</title>{style}{ground}\n{body}\n</svg>\n"
    )


def _pieces(row: Row, y: int) -> Iterable[str]:
    """The texts of a row, each at its place; spaces at the ends only move it."""
    x = 0
    for text, role in row:
        start = x + len(text) - len(text.lstrip(" "))
        x += cell_len(text)
        bare = text.strip(" ")
        if bare:
            place = f'x="{PADDING + CELL * start:.2f}" y="{PADDING + LINE * y + BASE:.2f}"'
            length = f'textLength="{CELL * cell_len(bare):.2f}" lengthAdjust="spacingAndGlyphs"'
            yield f'<text class="{role}" {place} {length}>{escape(bare)}</text>'


def screen_svg(screenshot: str) -> str:
    """A screenshot of Textual's that needs no font from elsewhere, is the same each time, and lines up.

    Textual measures texts in characters; wide ones take two cells.
    """

    def measured(match: re.Match[str]) -> str:
        cells = cell_len(unescape(match["text"]))
        return f'textLength="{_SCREEN_CELL * cells:.4g}"{match["rest"]}>{match["text"]}</text>'

    svg = re.sub(r"@font-face \{.*?\}", "", screenshot, flags=re.S)
    svg = re.sub(r"terminal-\d+", "terminal-0", svg).replace("Fira Code", "DejaVu Sans Mono")
    return re.sub(r'textLength="[\d.]+"(?P<rest>[^>]*)>(?P<text>[^<]*)</text>', measured, svg)


def png(svg: str) -> bytes:
    """The picture in pixels. Raises EagleChatError where that cannot be done here."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise EagleChatError(
            "PNG pictures need resvg-py: install it with `pip install resvg-py`, or export .svg"
        ) from None
    probe = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>{}</svg>"
    letter = f'<text y="9" font-family="{FONTS}">M</text>'
    blank, drawn, picture = (
        bytes(svg_to_bytes(svg_string=each, monospace_family="DejaVu Sans Mono"))
        for each in (probe.format(""), probe.format(letter), svg)
    )
    if blank == drawn:
        raise EagleChatError(
            "PNG pictures need a monospaced font and none was found: install DejaVu Sans Mono, or export .svg"
        )
    return picture
