"""Text that comes in pieces, broken between words where a terminal would cut them at its edge."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len


class WordWrap:
    """Passes text on. A word waits until it is whole, as it cannot be taken back to the next line."""

    def __init__(self, write: Callable[[str], None], width: int, column: int = 0) -> None:
        self._write = write
        self._width = width
        self._column = column  # cells taken in this line
        self._gap = ""  # spaces before the word
        self._word = ""

    def add(self, text: str) -> None:
        """The next piece."""
        if ready := "".join(map(self._place, text)):
            self._write(ready)

    def end(self) -> None:
        """Nothing more comes."""
        if ready := self._finish_word():
            self._write(ready)

    def _place(self, char: str) -> str:
        """What is ready to be written now that `char` has come."""
        if char == "\n":
            ready = self._finish_word()
            self._column, self._gap = 0, ""
            return f"{ready}\n"
        if char.isspace():
            ready = self._finish_word()
            self._gap += char
            return ready
        before = self._finish_word() if cell_len(char) > 1 else ""  # Chinese, Japanese: between any two
        self._word += char
        whole = cell_len(char) > 1 or cell_len(self._word) >= self._width
        return before + (self._finish_word() if whole else "")

    def _finish_word(self) -> str:
        if not self._word:
            return ""
        gap, word = self._gap, self._word
        if self._column and self._column + cell_len(gap + word) > self._width:
            gap, self._column = "\n", 0
        self._column += cell_len(gap.strip("\n") + word)
        self._gap = self._word = ""
        return gap + word


def wrapped(text: str, width: int) -> str:
    """A whole text, the same way."""
    parts: list[str] = []
    wrap = WordWrap(parts.append, width)
    wrap.add(text)
    wrap.end()
    return "".join(parts)
