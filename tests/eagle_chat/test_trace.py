"""Traces: what is written comes back, and what is no trace is said in one sentence."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from eagle_chat import __version__
from eagle_chat.errors import EXIT_FAILURE, EXIT_USAGE, EagleChatError, UsageError
from eagle_chat.events import Finished, Prefill, RoundDone, SessionInfo, Started
from eagle_chat.records import Dropped, RoundRecord, TreeRecord
from eagle_chat.trace import (
    FORMAT,
    VERSION,
    Marker,
    Trace,
    TraceWriter,
    open_trace,
    read_trace,
    write_markers,
)
from tests.eagle_chat.examples import random_round

INFO = SessionInfo("tiny", "eagle2", "fp32", "cpu", "ab" * 32, 2048, 8, 3, 4, 0.7, "a/head", ("One note.",))
SUMMARY = {"text": "So.", "tokens": [1, 2], "tau": 1.23456789, "stopped_by": "stop_token"}


def plain_round(index: int, texts: tuple[bytes, ...], text: str) -> RoundDone:
    """A round of plain decoding: no values, no target, no candidates."""
    tree = TreeRecord((7,), texts[:1], (-1,))
    new = tuple(range(len(texts)))
    return RoundDone(RoundRecord(index, new, texts, tree, (0,), 0, None, 0.0, 12.0, 0.5), text)


def written(path: Path, *rounds: RoundDone, prompt: str = "Why?") -> Trace:
    """The trace of a reply, read back."""
    with open_trace(path) as file:
        assert file is not None
        writer = TraceWriter(file, INFO)
        for event in (Started(prompt, "eagle2", 2**62 + 1), Prefill(3, 3), *rounds, Finished("So.", SUMMARY)):
            writer.write(event)
    return read_trace(path)


def rounded(value: float | None) -> object:
    return None if value is None else pytest.approx(value, rel=1e-4, abs=1e-12)


def assert_same(found: RoundRecord, made: RoundRecord) -> None:
    """Equal up to the rounding of numbers."""
    for name in ("index", "new", "texts", "path", "bonus"):
        assert getattr(found, name) == getattr(made, name)
    for name in ("bonus_target", "draft_ms", "verify_ms", "other_ms"):
        assert getattr(found, name) == rounded(getattr(made, name))
    for name in ("tokens", "texts", "parents", "drawn"):
        assert getattr(found.tree, name) == getattr(made.tree, name)
    for name in ("values", "target"):
        numbers = getattr(made.tree, name)
        assert getattr(found.tree, name) == (None if numbers is None else pytest.approx(numbers, rel=1e-4))
    assert found.tree.cutoff == rounded(made.tree.cutoff)
    assert len(found.tree.dropped) == len(made.tree.dropped)
    for one, other in zip(found.tree.dropped, made.tree.dropped, strict=True):
        assert replace(one, confidence=0.0, value=0.0) == replace(other, confidence=0.0, value=0.0)
        assert (one.confidence, one.value) == (rounded(other.confidence), rounded(other.value))


def test_round_trip(tmp_path):
    """Catches a field that is lost, renamed or of another type after reading: replay shows what happened."""
    made = [random_round(nodes, seed) for nodes, seed in ((8, 1), (60, 2), (1, 3))]
    made = [replace(record, index=i) for i, record in enumerate(made)]
    trace = written(tmp_path / "a.jsonl", *(RoundDone(record, f"text {i}") for i, record in enumerate(made)))
    assert [done.text for done in trace.rounds] == ["text 0", "text 1", "text 2"]
    for done, record in zip(trace.rounds, made, strict=True):
        assert_same(done.record, record)
    assert trace.info == INFO
    assert trace.summary == SUMMARY


def test_header(tmp_path):
    """Catches a trace that does not say what was run, or a seed that loses digits."""
    trace = written(tmp_path / "a.jsonl", prompt="Wörum?\n")
    header = json.loads((tmp_path / "a.jsonl").read_text(encoding="utf-8").partition("\n")[0])
    assert header == trace.header
    assert header | {"recorded": "", "machine": ""} == {
        "format": FORMAT,
        "version": VERSION,
        "eagle_chat": __version__,
        "recorded": "",
        "machine": "",
        "info": {
            **{name: getattr(INFO, name) for name in INFO.__slots__},
            "notes": ["One note."],
        },
        "prompt": "Wörum?\n",
        "method": "eagle2",
        "seed": 2**62 + 1,
    }


def test_every_byte_survives(tmp_path):
    """Catches token bytes that are no UTF-8, or end a line, being lost: half of an emoji is a token too."""
    texts = (
        *(bytes([byte]) for byte in range(256)),
        "😀".encode()[:2],
        b"",
        "\u2028\u2029\x85\x0b\r\n".encode(),
    )
    text = "line\u2028para\u2029next\x85tab\x0b\x1c\r\n\ufeff"
    trace = written(tmp_path / "a.jsonl", plain_round(0, texts, text), prompt=text)
    assert trace.rounds[0].record.texts == texts
    assert trace.rounds[0].text == text
    assert trace.header["prompt"] == text


def test_dropped_candidates_survive(tmp_path):
    """Catches the pruned part of a tree being left out of a recording."""
    done = plain_round(0, (b"a",), "a")
    dropped = (Dropped(9, b"\xff", 0, 0.25, -1.386294, True), Dropped(8, b" x", 1, 0.5, -2.0794, False))
    tree = replace(done.record.tree, dropped=dropped, drawn=(4, 16), cutoff=-1.25)
    trace = written(tmp_path / "a.jsonl", RoundDone(replace(done.record, tree=tree), "a"))
    assert_same(trace.rounds[0].record, replace(done.record, tree=tree))


def test_noise_survives_and_older_traces_have_none(tmp_path):
    """A trace from before the noise was recorded is whole, and one with it must not lose it."""
    made = random_round(8, 3)
    noise = (None, *[0.25 * node for node in range(8)])
    noisy = replace(made, tree=replace(made.tree, noise=noise), bonus_noise=-0.5)
    found = written(tmp_path / "new.jsonl", RoundDone(noisy, "So.")).rounds[0].record
    assert (found.tree.noise, found.bonus_noise) == (noise, -0.5)
    lines = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text("utf-8").splitlines()]
    for value in lines:
        if "round" in value:
            del value["round"]["bonus_noise"], value["round"]["tree"]["noise"]
    old = tmp_path / "old.jsonl"
    old.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    assert_same(read_trace(old).rounds[0].record, made)


def test_recording_that_was_cut_off(tmp_path):
    """Catches a trace that cannot be read because the program was ended in the middle of a reply."""
    path = tmp_path / "a.jsonl"
    written(path, plain_round(0, (b"a",), "a"), plain_round(1, (b"b",), "b"))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    trace = read_trace(path)
    assert trace.summary is None
    assert len(trace.rounds) == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "line 1 is not a JSON object"),
        (b"hello\n", "line 1 is not a JSON object"),
        (b"[1]\n", "line 1 is not a JSON object"),
        (b'{"a": 1}\n', "is not an eagle-chat trace"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"format": "eagle-chat-trace", "version": 99}\n', "version 99, this program reads 1 and 2"),
        (b'{"format": "eagle-chat-trace"}\n', "version None"),
        (b'{"format": "eagle-chat-trace", "version": 1}\n', "is damaged"),
        (b'{"format": "eagle-chat-trace", "version": 1, "info": 3}\n', "is damaged"),
    ],
)
def test_no_trace(tmp_path, content, sentence):
    """Catches a traceback where any file may be given."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(EagleChatError, match=sentence) as caught:
        read_trace(path)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == EXIT_FAILURE


@pytest.mark.parametrize(
    "damage",
    [
        {"round": 5},
        {"round": {}},
        {"text": None, "round": {"tree": None}},
        {"field": ("tree", [])},
        {"field": ("new", 3)},
        {"field": ("texts", [[999]])},
        {"field": ("extra", 1)},
        {"marker": 3},
        {"marker": {"round": 0}},
        {"marker": {"round": "0", "text": "a"}},
        {"marker": {"round": 0, "text": 5}},
    ],
)
def test_damaged_round(tmp_path, damage):
    """Catches a traceback for a line that is JSON but no round."""
    path = tmp_path / "a.jsonl"
    written(path, plain_round(0, (b"a",), "a"))
    lines = path.read_text().splitlines()
    value = json.loads(lines[2])
    if "field" in damage:
        name, wrong = damage["field"]
        value["round"][name] = wrong
    else:
        value |= damage
    path.write_text("\n".join([*lines[:2], json.dumps(value), *lines[3:]]))
    with pytest.raises(EagleChatError, match="is damaged"):
        read_trace(path)


def test_markers_turn_a_recording_into_a_lesson(tmp_path):
    """Catches markers that are lost, doubled when written again, out of order, or cost a round."""
    path = tmp_path / "a.jsonl"
    plain = written(path, plain_round(0, (b"a",), "a"), plain_round(1, (b"b",), "b"))
    markers = [Marker(1, "Wörds,\nand more."), Marker(0, "First."), Marker(1, "Last.")]
    for _ in range(2):
        write_markers(path, markers)
    trace = read_trace(path)
    assert trace.markers == (markers[1], markers[0], markers[2])
    assert replace(trace, markers=()) == plain
    write_markers(path, [])
    assert read_trace(path) == plain
    path.write_bytes(gzip.compress(path.read_bytes()))
    write_markers(path, markers)
    assert read_trace(path) == trace
    assert gzip.decompress(path.read_bytes())


def test_a_trace_of_the_first_version(tmp_path):
    """Catches recordings that cannot be replayed after an update, or markers that an older reader ignores."""
    path = tmp_path / "a.jsonl"
    written(path, plain_round(0, (b"a",), "a"))
    path.write_text(path.read_text().replace(f'"version":{VERSION}', '"version":1'))
    assert read_trace(path).markers == ()
    write_markers(path, [Marker(0, "Here.")])
    assert read_trace(path).header["version"] == VERSION


def test_markers_of_a_file_that_cannot_be_written(tmp_path):
    """Catches a traceback, or a file that is no trace being overwritten."""
    path = tmp_path / "a.txt"
    path.write_text('{"letter": "Dear"}\n')
    with pytest.raises(EagleChatError, match="is not an eagle-chat trace"):
        write_markers(path, [Marker(0, "Here.")])
    assert path.read_text() == '{"letter": "Dear"}\n'


def test_missing_file(tmp_path):
    """Catches a traceback for a path mistyped."""
    with pytest.raises(EagleChatError, match="cannot be read"):
        read_trace(tmp_path / "none.jsonl")


def test_nothing_to_record():
    """Catches a file made without being asked for."""
    with open_trace(None) as file:
        assert file is None


@pytest.mark.parametrize("where", ["missing/a.jsonl", ""])
def test_path_that_cannot_be_written(tmp_path, where):
    """Catches minutes of decoding before a mistyped path is noticed."""
    with (
        pytest.raises(UsageError, match="trace cannot be written") as caught,
        open_trace(tmp_path / where),
    ):
        pass
    assert caught.value.exit_code == EXIT_USAGE


class FullDisk(io.StringIO):
    """Takes nothing."""

    name = "/disk/trace.jsonl"

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_full_disk():
    """Catches a traceback where the disk fills up while a reply is being recorded."""
    with pytest.raises(EagleChatError, match=r"/disk/trace.jsonl cannot be written \(No space left"):
        TraceWriter(FullDisk(), INFO).write(Started("Why?", "none", 1))
