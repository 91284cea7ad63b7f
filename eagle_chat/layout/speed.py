"""The gauge as rows of text: how fast, how many tokens per round, where the milliseconds go.

Only what was measured is written; an unknown figure is a dash. Fields keep their width, so nothing moves.
"""

from dataclasses import dataclass, replace

from eagle_chat.calibration import Calibration
from eagle_chat.layout import calibration_strip
from eagle_chat.layout.rows import Row, fitting, row_width
from eagle_chat.statistics import ReplyStatistics

ROLES = ("figure", "gain", "label", "value", "strip", "draft", "verify", "other", "edge", "heading")

UNKNOWN = "–"
BARS = "▁▂▃▄▅▆▇"  # the full block would touch the row above
PHASES = (("draft", "▓", "d"), ("verify", "█", "v"), ("other", "░", "."))
WIDE = 90  # columns beside the digits from which words are written out
SHORT = 66
HEADING_HEIGHT = 4  # rows from which there is a heading
DIGITS_COLUMNS = 76  # columns from which the speed under it is written large
DIGITS_WIDTH = 14
BESIDE = DIGITS_WIDTH + 8  # where what stands beside the digits begins
TALL = 8  # rows from which every figure has a row of its own
DIGITS = {
    "0": ("┏━┓", "┃ ┃", "┗━┛"),
    "1": ("╺┓ ", " ┃ ", "╺┻╸"),
    "2": ("╺━┓", "┏━┛", "┗━╸"),
    "3": ("╺━┓", " ━┫", "╺━┛"),
    "4": ("╻ ╻", "┗━┫", "  ╹"),
    "5": ("┏━╸", "┗━┓", "╺━┛"),
    "6": ("┏━╸", "┣━┓", "┗━┛"),
    "7": ("╺━┓", "  ┃", "  ╹"),
    "8": ("┏━┓", "┣━┫", "┗━┛"),
    "9": ("┏━┓", "┗━┫", "╺━┛"),
    ".": (" ", " ", "•"),
    UNKNOWN: ("   ", "╺━╸", "   "),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What the gauge shows; None where nothing was measured."""

    stats: ReplyStatistics
    plain_tokens_per_second: float | None = None  # of a plain run of the same prompt on this machine
    ui_share: float | None = None  # of the wall clock, spent painting
    kv: tuple[int, int] | None = None  # tokens cached, tokens that fit
    kv_token_bytes: int = 0  # of one token in the target's cache
    memory: int | None = None  # bytes of the whole process
    calibration: Calibration | None = None  # where it is to be shown


def layout(reading: Reading, width: int, height: int, ascii_only: bool = False) -> list[Row]:
    """At most `height` rows, none wider than `width`: with a heading and large digits from four rows on.

    The calibration strip, where there is one, takes the last rows.
    """
    if reading.calibration is not None:
        below = calibration_strip.strip(reading.calibration, width, ascii_only)[:height]
        return [*_figures(reading, width, height - len(below), ascii_only), *below]
    return _figures(reading, width, height, ascii_only)


def _figures(reading: Reading, width: int, height: int, ascii_only: bool) -> list[Row]:
    if height < HEADING_HEIGHT:
        return _lines(reading, width - 1, height, ascii_only)
    rows = [heading(width, ascii_only)]
    width -= 1  # below the heading the last column stays free
    if height >= TALL and width >= DIGITS_WIDTH + 24 and not ascii_only:
        rows += _tall(reading, width)
    else:
        details = height > HEADING_HEIGHT
        above = replace(reading, memory=None) if details else reading  # said among the details
        if ascii_only or width < DIGITS_COLUMNS:
            rows += _lines(above, width, 3, ascii_only, depths=not details)
        else:
            rows += beside_digits(reading, _lines(above, width - BESIDE, 3, now=False, depths=not details))
    narrow = not any("KV" in text for row in rows for text, _ in row)
    return rows + _details(reading, width, height - len(rows), cached=narrow)


def _tall(reading: Reading, width: int) -> list[Row]:
    """The figures below one another beside the digits, then acceptance and time."""
    speed = _speed(reading, width, ascii_only=False, now=False)
    lines: list[Row] = [fitting([[(" ", "label")], part], width - BESIDE) for part in _stacked(speed)]
    return [
        *beside_digits(reading, lines),
        _acceptance(reading.stats, width, ascii_only=False, depths=False),
        fitting(_time(reading, width, ascii_only=False), width),
    ]


def _stacked(speed: list[Row]) -> list[Row]:
    """Mean, tau, gain: the parts of the speed line one below the other."""
    lines = [speed[1], speed[2], [segment for part in speed[3:5] for segment in part]]
    return [[(line[0][0].lstrip(), line[0][1]), *line[1:]] if line else [] for line in lines]


def beside_digits(reading: Reading, lines: list[Row]) -> list[Row]:
    now = reading.stats.tokens_per_second_now
    digits = large(number(now, 0 if now is not None and now >= 1000 else 1))
    return [
        [(f" {digit_row:>{DIGITS_WIDTH}} ", "figure"), (label, "label"), *line]
        for digit_row, label, line in zip(digits, ("tok/s ", "now   ", "      "), lines, strict=True)
    ]


def large(number: str) -> list[str]:
    """A number in digits three rows high."""
    return ["".join(DIGITS[char][row] for char in number) for row in range(3)]


def split(parts: list[float], cells: int) -> list[int]:
    """Whole cells in proportion to `parts`, adding up to `cells`."""
    total = sum(parts)
    if total <= 0:
        return [0] * len(parts)
    exact = [cells * part / total for part in parts]
    whole = [int(share) for share in exact]
    by_remainder = sorted(range(len(parts)), key=lambda i: whole[i] - exact[i])
    for i in by_remainder[: cells - sum(whole)]:
        whole[i] += 1
    return whole


def number(value: float | None, decimals: int, width: int = 0) -> str:
    return f"{UNKNOWN if value is None else f'{value:.{decimals}f}':>{width}}"


def heading(width: int, ascii_only: bool, title: str = "speed") -> Row:
    """The first row."""
    line = "-" if ascii_only else "─"
    rest = width - 4 - len(title)
    return [(line * 2, "edge"), (f" {title} ", "heading"), (line * rest, "edge")][: 3 if rest > 0 else 1]


def _lines(
    reading: Reading, width: int, count: int, ascii_only: bool = False, now: bool = True, depths: bool = True
) -> list[Row]:
    """The speed, then the time, then the acceptance between the two: in order of importance as rows allow."""
    speed = fitting(_speed(reading, width, ascii_only, now), width)
    if count <= 1:
        return [speed][:count]
    time = fitting(_time(reading, width, ascii_only), width)
    if count == 2:
        return [speed, time]
    return [speed, _acceptance(reading.stats, width, ascii_only, depths), time]


def _speed(reading: Reading, width: int, ascii_only: bool, now: bool) -> list[Row]:
    stats = reading.stats
    parts: list[Row] = [[(" ", "label")]]
    if now:
        parts.append([(number(stats.tokens_per_second_now, 1, 6), "figure"), (" tok/s now   ", "label")])
    parts.append([("mean ", "label"), (number(stats.tokens_per_second, 1, 6), "value")])
    words = " tokens per round" if width >= WIDE else ""
    parts.append(
        [
            ("   tau " if ascii_only else "   τ ", "label"),
            (number(stats.tau, 2, 4), "value"),
            (words, "label"),
        ]
    )
    plain = reading.plain_tokens_per_second
    if plain and stats.tokens_per_second is not None:
        times = "x" if ascii_only else "×"
        parts.append(
            [
                (f"   {times}{stats.tokens_per_second / plain:.2f}", "gain"),
                (f" vs plain {plain:.1f}", "label"),
            ]
        )
        parts.append([(" (measured)", "label")])
    if reading.ui_share is not None:
        parts.append([("   screen ", "label"), (f"{100 * reading.ui_share:.1f}%", "value")])
    parts.append(_memory(reading))
    return parts


def _time(reading: Reading, width: int, ascii_only: bool) -> list[Row]:
    """Milliseconds of a round by phase, as numbers and as one bar."""
    stats = reading.stats
    spent = [stats.draft_ms, stats.verify_ms, stats.other_ms]
    parts: list[Row] = [[(" ", "label")]]
    for (name, block, letter), ms in zip(PHASES, spent, strict=True):
        mean = ms / stats.rounds if stats.rounds else None
        key = f"{letter} " if ascii_only else block
        parts.append([(key, name), (f"{name} ", "label"), (number(mean, 1, 5), "value"), ("  ", "label")])
    parts.append([("ms/round  " if width >= SHORT else "ms  ", "label")])
    cache = _storage(reading, width) if width >= SHORT else []
    room = min(60, width - row_width(fitting(parts, width)) - row_width(cache))
    if room >= 6:
        bar: Row = [
            ((letter if ascii_only else block) * cells, name)
            for (name, block, letter), cells in zip(PHASES, split(spent, room), strict=True)
        ]
        parts.append([*bar, (" " * (room - row_width(bar)), "label")])
    return [*parts, cache]


def _storage(reading: Reading, width: int) -> Row:
    """Tokens in the cache and, where words are written out, what they take."""
    row: Row = []
    if reading.kv is not None:
        row = [("  KV ", "label"), (f"{reading.kv[0]}/{reading.kv[1]}", "value")]
        if reading.kv_token_bytes and width >= WIDE:
            row.append((f" {_megabytes(reading.kv[0] * reading.kv_token_bytes)}", "label"))
    return row


def _memory(reading: Reading) -> Row:
    """What the whole process takes."""
    if reading.memory is None:
        return []
    return [("   memory ", "label"), (_megabytes(reading.memory), "value")]


def _megabytes(count: int) -> str:
    megabytes = count / 1e6
    return f"{f'{megabytes:.0f}' if megabytes >= 10 else f'{megabytes:.1f}':>4} MB"


def _acceptance(stats: ReplyStatistics, width: int, ascii_only: bool, depths: bool) -> Row:
    """Accepted tokens of the last rounds as a strip, and the share accepted at each depth."""
    label = " accepted per round " if width >= WIDE else " accepted "
    right = _depths(stats) if depths else []
    by_depth = fitting(right, max(0, width - len(label) - 14))
    room = max(0, min(60, width - len(label) - row_width(by_depth) - 2 * bool(by_depth)))
    strip = accepted_strip(stats, room, ascii_only)
    return fitting(
        [[(label, "label")], [(strip, "strip")], [("  ", "label"), *by_depth] if by_depth else []], width
    )


def accepted_strip(stats: ReplyStatistics, cells: int, ascii_only: bool = False) -> str:
    """One cell per round, the newest last: as high as its share of the deepest tree."""
    recent = stats.accepted_history[-cells:] if cells else []
    if ascii_only:
        return "".join(str(min(9, accepted)) for accepted in recent).ljust(cells)
    top = max(1, len(stats.accepted_by_depth))
    return "".join(BARS[min(6, round(6 * accepted / top))] for accepted in recent).ljust(cells)


def _depths(stats: ReplyStatistics) -> list[Row]:
    return [
        [(f"d{depth} ", "label"), (f"{round(100 * share)}%".ljust(6), "value")]
        for depth, share in enumerate(stats.accepted_by_depth, start=1)
    ]


def _details(reading: Reading, width: int, count: int, cached: bool) -> list[Row]:
    """Rows for those who have the room: acceptance at every depth, then totals.

    With `cached` they tell the size of the cache, for which the rows above are too narrow.
    """
    stats = reading.stats
    accepted = sum(stats.accepted_history)
    totals: Row = [
        (" rounds ", "label"),
        (f"{stats.rounds:>4}", "value"),
        ("   accepted ", "label"),
        (f"{accepted:>4}", "value"),
        ("   tokens ", "label"),
        (f"{stats.new_tokens:>4}", "value"),
        ("   prefill ", "label"),
        (f"{number(stats.prefill_ms if stats.new_tokens else None, 0, 5)}", "value"),
        (" ms", "label"),
    ]
    cache = _storage(reading, width) if cached else []
    shares = _depths(stats) or [[(UNKNOWN, "value")]]
    return [
        fitting([[(" accepted at depth  ", "label")], *shares, _memory(reading)], width),
        fitting([totals[:4], totals[4:6], totals[6:], cache], width),
    ][: max(0, count)]
