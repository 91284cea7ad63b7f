"""Text that is safe to put on a terminal: control characters become symbols."""

_SYMBOLS: dict[int, int | None] = {code: 0x2400 + code for code in range(32)}
_SYMBOLS |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)  # C1: some terminals obey these as well
_SYMBOLS |= {ord("\n"): ord("\n"), ord("\t"): ord("\t"), ord("\r"): None, 0x7F: 0x2421}


def visible(text: str) -> str:
    """`text` with nothing in it that a terminal would obey; line breaks and tabs stay."""
    return text.translate(_SYMBOLS)
