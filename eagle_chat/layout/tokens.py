"""A token's bytes as visible text that takes a known number of terminal cells.

Widths are cells, never characters: a Chinese character or an emoji takes two, a combining accent none.
"""

import unicodedata
from functools import lru_cache
from itertools import groupby

from rich.cells import cell_len

LEFT_TO_RIGHT_MARK = "\u200e"

_SYMBOLS = {"\n": "⏎", "\t": "⇥"}
_ASCII_SYMBOLS = {"\n": "\\n", "\t": "\\t"}
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})  # invisible, or of unknown width
_VARIATION_SELECTORS = frozenset("\ufe0e\ufe0f")  # they change a width that terminals do not agree on


@lru_cache(8192)
def token_text(data: bytes, ascii_only: bool = False) -> str:
    """The whole token, visible: no line breaks, no control characters, no bare spaces at either end."""
    text = data.decode("utf-8", "surrogateescape")
    space = "_" if ascii_only else "␣"
    if not text.strip(" "):
        return space * len(text) or ("<>" if ascii_only else "‹›")
    text = text.removeprefix(" ")  # the mark of a word's start
    stripped = text.strip(" ")
    left = len(text) - len(text.lstrip(" "))
    right = len(text) - left - len(stripped)
    return space * left + _visible(stripped, ascii_only) + space * right


def truncate(text: str, cells: int, ascii_only: bool = False) -> str:
    """`text` cut to at most `cells` cells, ending in an ellipsis where something was cut."""
    if cell_len(text) <= cells:
        return text
    if cells <= 0:
        return ""
    kept = text[: cells - 1]
    while cell_len(kept) > cells - 1:
        kept = kept[:-1]
    return kept + ("~" if ascii_only else "…")


@lru_cache(8192)
def fitted(data: bytes, cells: int, ascii_only: bool = False) -> str:
    """The token in at most `cells` cells, safe beside other text in any writing direction."""
    text = truncate(token_text(data, ascii_only), cells, ascii_only)
    if not text.isascii() and any(unicodedata.bidirectional(char) in ("R", "AL") for char in text):
        # on both sides, or a terminal that reorders would pull the numbers behind it into the word
        return LEFT_TO_RIGHT_MARK + text + LEFT_TO_RIGHT_MARK
    return text


def _visible(text: str, ascii_only: bool) -> str:
    if text.isascii() and text.isprintable():
        return text
    shown = ""
    for hidden, run in groupby(text, _is_hidden):
        if hidden:  # neighbours share one pair of brackets
            code = "".join(_code(char) for char in run)
            shown += f"<{code}>" if ascii_only else f"‹{code}›"
        elif ascii_only:
            shown += (
                "".join(_ASCII_SYMBOLS.get(char, char) for char in run)
                .encode("ascii", "backslashreplace")
                .decode()
            )
        else:
            shown += "".join(_SYMBOLS.get(char, char) for char in run if char not in _VARIATION_SELECTORS)
    # a lone accent would sit on the glyph drawn before it
    return f" {shown}" if shown and unicodedata.category(shown[0]).startswith("M") else shown


def _is_hidden(char: str) -> bool:
    return char not in _SYMBOLS and unicodedata.category(char) in _HIDDEN


def _code(char: str) -> str:
    """Hexadecimal code of a character; of the byte itself where it is not UTF-8 yet."""
    return f"{ord(char) - 0xDC00 if _is_byte(char) else ord(char):02X}"


def _is_byte(char: str) -> bool:
    return "\udc80" <= char <= "\udcff"  # how "surrogateescape" carries it
