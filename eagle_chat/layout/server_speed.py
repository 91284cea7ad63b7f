"""The gauge of a reply that a server decodes: our clock and its tokens; phases of its rounds are unseen."""

from eagle_chat.layout.rows import Row, fitting
from eagle_chat.layout.speed import (
    BARS,
    BESIDE,
    DIGITS_COLUMNS,
    HEADING_HEIGHT,
    Reading,
    beside_digits,
    heading,
    number,
)
from eagle_chat.server.statistics import ServerStatistics

TITLE = "speed by our clock"
LONGEST_STRIP = 60  # cells
FEWEST = 8  # cells that are worth a strip


def layout(stats: ServerStatistics, width: int, height: int, ascii_only: bool) -> list[Row]:
    """At most `height` rows, none wider than `width`, like the gauge of replies that are decoded here."""
    if height < HEADING_HEIGHT:
        return [_speed(stats, width, ascii_only, now=True), _facts(stats, width)][:height]
    large = not ascii_only and width >= DIGITS_COLUMNS
    room = width - 1 - (BESIDE if large else 0)
    lines = [
        _speed(stats, room, ascii_only, now=not large),
        _strip(stats, room, ascii_only),
        _facts(stats, room),
    ]
    below = beside_digits(Reading(stats), lines) if large else lines
    return [heading(width, ascii_only, TITLE), *below]


def _speed(stats: ServerStatistics, width: int, ascii_only: bool, now: bool) -> Row:
    parts: list[Row] = [[(" ", "label")]]
    if now:
        parts.append([(number(stats.tokens_per_second_now, 1, 6), "figure"), (" tok/s now   ", "label")])
    parts.append([("mean ", "label"), (number(stats.tokens_per_second, 1, 6), "value")])
    parts.append([("   tau " if ascii_only else "   τ ", "label"), (number(stats.tau, 2, 4), "value")])
    parts.append([(" as the server says", "label")] if stats.tau is not None else [])
    return fitting(parts, width)


def _strip(stats: ServerStatistics, width: int, ascii_only: bool) -> Row:
    """Tokens that came at once, the newest last; the largest piece is as high as there is room."""
    label = " tokens per piece "
    cells = min(LONGEST_STRIP, width - len(label))
    recent = stats.tokens_per_piece[-cells:] if cells >= FEWEST else []
    if not recent:
        return fitting([[(" the server counts tokens at the end", "label")]], width) if stats.pieces else []
    most = max(1, *stats.tokens_per_piece)
    strip = "".join(
        str(min(9, tokens)) if ascii_only else BARS[round((len(BARS) - 1) * tokens / most)]
        for tokens in recent
    )
    return [(label, "label"), (strip, "strip")]


def _facts(stats: ServerStatistics, width: int) -> Row:
    first = number(stats.prefill_ms if stats.pieces else None, 0, 5)
    tokens = number(stats.new_tokens or None, 0, 4)
    return fitting(
        [
            [(" first text ", "label"), (first, "value"), (" ms", "label")],
            [("   tokens ", "label"), (tokens, "value")],
            [("   pieces ", "label"), (f"{stats.pieces:>4}", "value")],
        ],
        width,
    )
