"""Exported pictures, pages and texts: whole, escaped, loading nothing from elsewhere."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len

from eagle_chat.authorship import written_by
from eagle_chat.documents import Turn, html, markdown
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE
from eagle_chat.events import RoundDone
from eagle_chat.layout.picture import VIEWS
from eagle_chat.pictures import CELL, colours, most_telling, screen_svg, tree_rows, tree_svg
from eagle_chat.trace import read_trace
from tests.eagle_chat.conftest import Ran, assert_refused
from tests.eagle_chat.examples import example_plain, example_prefill, example_round, random_round
from tests.eagle_chat.recordings import recording, write_recording
from tests.eagle_chat.replay_pilot import TRACES

Command = Callable[..., Ran]
SVG = "{http://www.w3.org/2000/svg}"
NASTY = "a <script>alert(1)</script> & 「天空」 \x1b[31m \x07 ``` </span>"


def test_every_ending(command: Command, tmp_path: Path) -> None:
    """Catches an ending of the list that fails, or narration on standard output."""
    trace = write_recording(tmp_path / "a.jsonl")
    for ending in (".svg", ".png", ".html", ".md", ".jsonl", ".jsonl.gz", ".SVG"):
        to = tmp_path / f"out{ending}"
        ran = command("export", trace, "--to", to)
        assert (ran.code, ran.out) == (EXIT_DONE, "")
        assert ran.err.startswith(f"{to}: ")
        assert to.stat().st_size > 100
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out.jsonl").read_bytes() == trace.read_bytes()


def test_a_packed_trace_is_a_trace(command: Command, tmp_path: Path) -> None:
    """Catches a .gz that replay cannot read, and a broken one that ends in a traceback."""
    trace = write_recording(tmp_path / "a.jsonl")
    packed = tmp_path / "a.jsonl.gz"
    command("export", trace, "--to", packed)
    assert read_trace(packed) == read_trace(trace)
    assert command("export", packed, "--to", tmp_path / "b.jsonl").code == EXIT_DONE
    assert (tmp_path / "b.jsonl").read_bytes() == trace.read_bytes()
    for damaged in (packed.read_bytes()[:-9], b"\x1f\x8bnothing", gzip.compress(b"\xff{")):
        packed.write_bytes(damaged)
        ran = command("replay", packed)
        assert ran.code == EXIT_FAILURE
        assert "cannot be read" in ran.err or "not a" in ran.err


def test_what_cannot_be_done(command: Command, tmp_path: Path) -> None:
    """Catches tracebacks, and a trace that its own export destroys."""
    trace = write_recording(tmp_path / "a.jsonl")
    before = trace.read_bytes()
    assert_refused(command("export", trace, "--to", tmp_path / "a.gif"), "a.gif", ".svg, .png, .html")
    assert_refused(command("export", trace, "--to", tmp_path / "a.md", "--round", 2), "--round", "picture")
    assert_refused(command("export", trace, "--to", tmp_path / "a.svg", "--round", 999), "no round 999")
    assert_refused(command("export", trace, "--to", tmp_path / "a.svg", "--theme", "x"), "'x'", "eagle-dark")
    assert_refused(command("export", trace, "--to", trace), "itself")
    assert trace.read_bytes() == before
    ran = command("export", trace, "--to", tmp_path / "nowhere" / "a.svg")
    assert (ran.code, ran.err.count("\n")) == (EXIT_FAILURE, 1)
    assert "cannot be written" in ran.err
    assert command("export", tmp_path / "none.jsonl", "--to", tmp_path / "a.svg").code == EXIT_FAILURE


def test_png_without_its_library(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a traceback where the optional library is missing."""
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    ran = command("export", write_recording(tmp_path / "a.jsonl"), "--to", tmp_path / "a.png")
    assert ran.code == EXIT_FAILURE
    assert "pip install resvg-py" in ran.err
    assert not (tmp_path / "a.png").exists()


@pytest.mark.parametrize("view", [*VIEWS, None])
@pytest.mark.parametrize("seed", range(3))
def test_a_picture_has_every_piece_in_its_place(view: str | None, seed: int) -> None:
    """Catches lost text, unescaped tokens, columns that drift, and wide characters that are squeezed."""
    rows = tree_rows(random_round(20, seed=seed), 120, view)  # type: ignore[arg-type]
    root = ElementTree.fromstring(tree_svg(rows, colours(), "<title> & more"))
    texts = root.findall(f"{SVG}text")
    assert [each.text for each in texts] == [
        text.strip(" ") for row in rows for text, _ in row if text.strip(" ")
    ]
    for each in texts:
        assert float(each.get("textLength", 0)) == pytest.approx(CELL * cell_len(each.text or ""), abs=0.01)


@pytest.mark.parametrize("record", [example_prefill(), example_plain(), example_round()])
def test_rounds_without_much_of_a_tree(record) -> None:  # type: ignore[no-untyped-def]
    """Catches a picture that fails where nothing was drafted."""
    ElementTree.fromstring(tree_svg(tree_rows(record, 100), colours("eagle-light"), ""))


def test_the_most_telling_round() -> None:
    """Catches a default that shows the prefill or a round without a tree."""
    trace = read_trace(TRACES / "chat.jsonl")
    best = trace.rounds[most_telling(trace.rounds)].record
    assert best.accepted >= 5
    assert most_telling([RoundDone(example_prefill(), "The")]) == 0


def test_pieces_are_the_text(tmp_path: Path) -> None:
    """Catches text that is lost, doubled, or given to somebody else's token."""
    for trace in (recording(tmp_path / "a.jsonl", "Grüße, 天空 😀!"), read_trace(TRACES / "chat.jsonl")):
        found = list(written_by(trace.rounds))
        assert "".join(token.text for token in found) == "".join(done.text for done in trace.rounds)
        own = [token.round for token in found if token.depth is None]
        assert own == [done.record.index for done in trace.rounds if done.record.bonus is not None]
        assert len(found) == sum(len(done.record.new) for done in trace.rounds)


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.reply, self._inside = "", False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        self._inside = self._inside or ("class", "reply") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "p"

    def handle_data(self, data: str) -> None:
        self.reply += data if self._inside else ""


def test_a_page_is_one_file_with_every_tree(tmp_path: Path) -> None:
    """Catches a page that loads something, lacks a round, or lets a model's text run as a script."""
    trace = recording(tmp_path / "a.jsonl", NASTY)
    turn = Turn(NASTY, trace.rounds, NASTY, "9 tokens")
    text = html([turn, turn], "<model>", colours())
    page = Page(text)
    assert page.tags.count("script") == 1
    assert page.tags.count("svg") == 2 * len(trace.rounds)
    assert all(re.fullmatch(r"#t[12]r\d+", address) for address in page.addresses)
    assert {address[1:] for address in page.addresses} == set(re.findall(r'<figure id="(\w+)"', text))
    assert "@import" not in text
    assert "url(" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f]", text)
    shown = NASTY.translate({0x1B: "␛", 0x07: "␇"})
    assert page.reply == 2 * shown


def test_markdown_keeps_what_was_said(tmp_path: Path) -> None:
    """Catches prompts that become headings, and an open block of code that swallows the next turn."""
    trace = recording(tmp_path / "a.jsonl")
    turns = [
        Turn("# title\nand more", trace.rounds, "```python\nx = 1", "2 tokens · seed_7"),
        Turn("next", trace.rounds, "```\ndone\n```\nfine", "1 token"),
    ]
    lines = markdown(turns, "a_model").split("\n")
    assert "> # title" in lines
    assert lines.count("```") == 3
    assert lines[lines.index("x = 1") + 1] == "```"
    assert r"*2 tokens · seed\_7*" in lines
    assert lines[-1] == ""


def test_half_a_character_in_a_trace(command: Command, tmp_path: Path) -> None:
    """Catches a lone surrogate that stops the writing of a file."""
    trace = write_recording(tmp_path / "a.jsonl")
    header, *rest = trace.read_text().split("\n")
    odd = json.dumps(json.loads(header) | {"prompt": "\ud800 odd"})
    trace.write_text("\n".join([odd, *rest]))
    for ending in (".md", ".html"):
        assert command("export", trace, "--to", tmp_path / f"out{ending}").code == EXIT_DONE


def test_a_screenshot_lines_up() -> None:
    """Catches wide characters that are squeezed into half their cells, and a font from elsewhere."""
    shot = (
        "<svg><style>@font-face { src: url('https://x') }</style>"
        '<text class="terminal-123-r1" x="0" textLength="24.4" clip-path="url(#a)">中文</text></svg>'
    )
    svg = screen_svg(shot)
    assert 'textLength="48.8"' in svg
    assert "https" not in svg
    assert "terminal-123" not in svg
    assert unescape(svg).count("中文") == 1
