"""The gauge: its figures, and that it invents none."""

import asyncio

import pytest
from textual.app import App, ComposeResult

import themes
from eagle_chat.layout.rows import Row, row_text, row_width
from eagle_chat.layout.speed import ROLES, Reading, accepted_strip, large, layout, split
from eagle_chat.process_memory import resident_bytes
from eagle_chat.statistics import ReplyStatistics
from eagle_chat.widgets.gauge import Gauge
from tests.eagle_chat.examples import example_prefill, example_round, random_round


def example_statistics(rounds: int = 10) -> ReplyStatistics:
    """A prefill and rounds that accept 3, 2, 1, 0, 3, … tokens in 35 ms each."""
    stats = ReplyStatistics()
    stats.add(example_prefill())
    for index in range(1, rounds + 1):
        stats.add(example_round(index, 3 - (index - 1) % 4))
    return stats


def picture(rows: list[Row]) -> str:
    return "\n".join(row_text(row).rstrip() for row in rows)


def test_compact() -> None:
    """The three rows of an 80-column terminal: wrong figures, wrong order, something lost at the edge."""
    reading = Reading(example_statistics(), plain_tokens_per_second=33.1, kv=(143, 4096))
    assert picture(layout(reading, 80, 3)) == (
        "   77.1 tok/s now   mean   77.1   τ 2.70   ×2.33 vs plain 33.1 (measured)\n"
        " accepted ▇▅▃▁▇▅▃▁▇▅                                d1 80%   d2 60%   d3 30%\n"
        " ▓draft   9.1  █verify  24.6  ░other   1.3  ms/round  ▓▓▓████████░  KV 143/4096"
    )


def test_ascii() -> None:
    """Blocks and digits need a plain form too."""
    reading = Reading(example_statistics(), 33.1, 0.02, (143, 4096))
    for height in (3, 4, 8):
        assert picture(layout(reading, 100, height, ascii_only=True)).isascii()


def test_nothing_invented() -> None:
    """Before the first round every figure is a dash, and without a plain run there is no speed-up."""
    text = picture(layout(Reading(ReplyStatistics()), 120, 6))
    assert not any(
        char.isdigit()
        for char in text.replace("rounds    0", "").replace("accepted    0", "").replace("tokens    0", "")
    )
    assert "–" in text
    assert "×" not in picture(layout(Reading(example_statistics()), 120, 6))
    assert "screen" not in text
    assert "KV" not in text


@pytest.mark.parametrize("width", [20, 40, 55, 60, 76, 80, 119, 120, 200])
@pytest.mark.parametrize("height", range(1, 10))
def test_fits(width: int, height: int) -> None:
    """A row too wide or one too many is cut by the terminal in the middle of a figure."""
    deep = example_statistics(90)
    deep.add(random_round(60, 3))
    for stats in (ReplyStatistics(), example_statistics(), deep):
        for ascii_only in (False, True):
            rows = layout(Reading(stats, 33.1, 0.028, (143, 4096)), width, height, ascii_only)
            assert len(rows) <= height
            assert all(row_width(row) <= width for row in rows)
            assert all(role in ROLES for row in rows for _, role in row)


def test_fields_stay_in_place() -> None:
    """Figures that change their width make the whole line tremble several times a second."""
    starts = set()
    for rounds in (1, 3, 40, 300):
        text = picture(layout(Reading(example_statistics(rounds), 33.1), 80, 3))
        starts.add(tuple(text.splitlines()[0].index(word) for word in ("mean", "τ", "×")))
        assert "ms/round" in text
    assert len(starts) == 1


def test_large_digits() -> None:
    """Digits of different widths would shift what stands beside them."""
    assert large("17.4") == ["╺┓ ╺━┓ ╻ ╻", " ┃   ┃ ┗━┫", "╺┻╸  ╹•  ╹"]
    assert {len(row) for number in ("0.1", "2.3", "4.5", "6.7", "8.9") for row in large(number)} == {7}
    assert large("–") == ["   ", "╺━╸", "   "]


def test_split_adds_up() -> None:
    """Rounding each share alone leaves a hole in the bar, or one cell too many."""
    assert split([9.1, 24.6, 1.3], 20) == [5, 14, 1]
    assert split([0, 0, 0], 20) == [0, 0, 0]
    for cells in range(30):
        assert sum(split([1, 1, 1], cells)) == cells


def test_strip_shows_the_newest() -> None:
    """A strip that stops at the left end would freeze after the first rounds."""
    stats = example_statistics(10)
    assert accepted_strip(stats, 12) == "▇▅▃▁▇▅▃▁▇▅  "
    assert accepted_strip(stats, 3) == "▁▇▅"
    assert accepted_strip(stats, 3, ascii_only=True) == "032"
    assert accepted_strip(stats, 0) == ""


def test_widget_paints_what_it_was_given() -> None:
    """Figures of the last call kept in a cache, or a line of the wrong length."""

    class GaugeApp(App):
        def get_theme_variable_defaults(self) -> dict[str, str]:
            return themes.tree_variable_defaults(self.current_theme.dark)

        def compose(self) -> ComposeResult:
            yield Gauge()

    async def main() -> None:
        app = GaugeApp()
        async with app.run_test(size=(120, 20)) as pilot:
            gauge = app.query_one(Gauge)
            gauge.show(Reading(example_statistics(), 33.1, 0.028, (10, 100)))
            await pilot.pause()
            lines = [gauge.render_line(y) for y in range(gauge.size.height)]
            assert all(line.cell_length == gauge.size.width for line in lines)
            text = "\n".join(line.text for line in lines)
            assert "×2.33" in text
            assert "10/100" in text
            assert "2.8%" in text
            gauge.show(Reading(ReplyStatistics()))
            assert "×" not in gauge.render_line(1).text

    asyncio.run(main())


def test_memory_by_priority() -> None:
    """Megabytes that push a figure off a narrow gauge, or are said twice on a tall one."""
    reading = Reading(example_statistics(), 33.1, 0.013, (143, 4096), 23_040, 812_000_000)
    for width, height in ((80, 4), (120, 4), (160, 6), (200, 8)):
        text = picture(layout(reading, width, height))
        assert text.count("812 MB") == (width > 120)
        assert text.count("3.3 MB") == (width >= 120)
        assert "τ 2.70" in text


def test_resident_memory() -> None:
    """A unit taken for another: this process has more than a megabyte and less than a terabyte."""
    resident = resident_bytes()
    assert resident is not None
    assert 1e6 < resident < 1e12
