"""Token bytes as visible text in cells."""

import pytest
from rich.cells import cell_len

from eagle_chat.layout.tokens import LEFT_TO_RIGHT_MARK, fitted, token_text, truncate


@pytest.mark.parametrize(
    ("data", "shown", "ascii_only"),
    [
        (b" is", "is", "is"),
        (b"ing", "ing", "ing"),
        (b" ", "␣", "_"),
        (b"    ", "␣␣␣␣", "____"),
        (b"  x", "␣x", "_x"),
        (b"a ", "a␣", "a_"),
        (b"\n\n", "⏎⏎", "\\n\\n"),
        (b"\t", "⇥", "\\t"),
        (b"\r\n", "‹0D›⏎", "<0D>\\n"),
        (b"\xe2", "‹E2›", "<E2>"),
        (b" \xe2\x96", "‹E296›", "<E296>"),
        (b"\x1b[31m", "‹1B›[31m", "<1B>[31m"),
        (b"></", "></", "></"),
        (b"", "‹›", "<>"),
        ("\u202eabc".encode(), "‹202E›abc", "<202E>abc"),
        (" 中文".encode(), "中文", "\\u4e2d\\u6587"),
        ("é".encode(), "é", "\\xe9"),
    ],
)
def test_bytes_become_visible(data: bytes, shown: str, ascii_only: str) -> None:
    """A newline, an escape sequence or half a character in a token would tear the picture apart."""
    assert token_text(data) == shown
    assert token_text(data, True) == ascii_only
    assert ascii_only.isascii()


@pytest.mark.parametrize(
    "data", [b" molecules", " 中文字".encode(), "👨\u200d👩👧".encode(), b"\xe2\x96\x00abc"]
)
@pytest.mark.parametrize("cells", range(12))
def test_fits_in_cells(data: bytes, cells: int) -> None:
    """Cutting by characters lets wide ones run over the edge of their column."""
    for ascii_only in (False, True):
        assert cell_len(fitted(data, cells, ascii_only)) <= cells


def test_truncation_says_so() -> None:
    """A cut token must not pass for a whole one."""
    assert fitted(b" molecules", 6) == "molec…"
    assert fitted(b" molecules", 6, True) == "molec~"
    assert truncate("中文字", 4) == "中…"
    assert fitted(b" scatter", 7) == "scatter"


def test_right_to_left_keeps_its_place() -> None:
    """A terminal that reorders text would pull the percentages behind a Hebrew word into it."""
    text = fitted(" שלום".encode(), 8)
    assert text.startswith(LEFT_TO_RIGHT_MARK)
    assert text.endswith(LEFT_TO_RIGHT_MARK)
    assert cell_len(text) == 4


def test_accent_does_not_sit_on_the_glyph() -> None:
    """A token that begins with a combining mark would change the state's glyph before it."""
    assert token_text("\u0301a".encode())[0] == " "
