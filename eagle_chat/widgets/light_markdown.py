"""Markdown while it is being written: line by line into one piece of styled text.

Textual's Markdown makes several widgets for every block, and each costs layout and styling in every frame.
"""

import re

from textual.content import Content
from textual.style import Style

FENCE = re.compile(r"\s{0,3}(```|~~~)")
HEADING = re.compile(r"#{1,6} +")
BULLET = re.compile(r"(\s*)[-*+] +")
QUOTE = re.compile(r"> ?")
INLINE = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|(?<![\w*])\*(?P<em>[^*\s][^*]*)\*(?![\w*])")
STYLES = {"code": "$text-warning", "strong": "bold", "em": "italic"}


def light_markdown(text: str, in_fence: bool = False) -> tuple[Content, bool]:
    """The styled text, and whether a fence is open at its end; `in_fence`: one is open at its beginning."""
    lines = []
    for line in text.split("\n"):
        if FENCE.match(line):
            in_fence = not in_fence
            lines.append(Content.styled(line, "$text-muted"))
        else:
            lines.append(Content.styled(f"  {line}", "$foreground") if in_fence else _line(line))
    return Content("\n").join(lines), in_fence


def _line(line: str) -> Content:
    if match := HEADING.match(line):
        return Content.styled(line[match.end() :], "bold $primary")
    if match := BULLET.match(line):
        return _inline(f" {match[1]}• {line[match.end() :]}")
    if match := QUOTE.match(line):
        return _inline(f"▌ {line[match.end() :]}")
    return _inline(line)


def _inline(line: str) -> Content:
    parts: list[str | tuple[str, str | Style]] = []
    end = 0
    for match in INLINE.finditer(line):
        kind = match.lastgroup
        assert kind is not None
        parts += [line[end : match.start()], (match[kind], STYLES[kind])]
        end = match.end()
    return Content.assemble(*parts, line[end:])
