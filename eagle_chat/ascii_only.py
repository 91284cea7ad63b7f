"""Pictures in ASCII: what still draws with other characters is translated on its way to the terminal.

Trees and gauges have an ASCII layout of their own, with words where one character would not do. All the rest,
borders, marks and arrows, takes one cell per character, and keeps it here. Letters stay what they are.
"""

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

MARKS = {
    "…": "~", "·": "-", "•": "*", "▪": "*", "‣": "*", "⭑": "*", "◦": "o", "–": "-", "—": "-", "−": "-",
    "×": "x", "≤": "<", "≥": ">", "τ": "t", "❯": ">", "▶": ">", "◀": "<", "■": "#", "✗": "x", "✓": "v",
    "❚": "|", "✂": "%", "‹": "<", "›": ">", "‘": "'", "’": "'", "“": '"', "”": '"', "⏎": "$", "⇥": ">",
    "␣": "_", "←": "<", "→": ">", "↑": "^", "↓": "v", "⭘": "o", "●": "*", "○": "o", "◆": "@", "★": "$",
    "◌": "~", "▼": "v", "▲": "^", "🔎": "? ",
}  # fmt: skip
LINES_ACROSS = "─━┄┅┈┉╌╍═╴╶╸╺╼╾▔▁"
LINES_DOWN = "│┃┆┇┊┋╎╏║╵╷╹╻╽╿▏▎▌▐▕"


def _table() -> dict[int, str]:
    """Every line and block of Unicode, then what needs a character of its own."""
    table = dict.fromkeys(range(0x2500, 0x2580), "+")
    table |= dict.fromkeys(range(0x2580, 0x25A0), "#")
    table |= {ord(char): "-" for char in LINES_ACROSS} | {ord(char): "|" for char in LINES_DOWN}
    return table | {ord(char): ascii_char for char, ascii_char in MARKS.items()}


TO_ASCII = _table()


class AsciiOnly(LineFilter):
    """Translates marks and lines of whatever is painted."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same cells in ASCII."""
        return [
            segment if segment.text.isascii() else Segment(segment.text.translate(TO_ASCII), *segment[1:])
            for segment in segments
        ]
