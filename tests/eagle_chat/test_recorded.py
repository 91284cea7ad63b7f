"""Files that anybody may have written: what can be replayed, and one sentence for the rest."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle_chat.errors import EXIT_FAILURE, EagleChatError
from eagle_chat.recorded import load_recording
from eagle_chat.trace import Marker, write_markers
from tests.eagle_chat.recordings import cut, recording, write_recording

TRACES = Path(__file__).parents[2] / "screenshots" / "traces"
Damage = Callable[[list[dict[str, Any]]], object]


def refused(path: Path, *parts: str) -> None:
    """One sentence with the file and the problem."""
    with pytest.raises(EagleChatError) as caught:
        load_recording(path)
    assert caught.value.exit_code == EXIT_FAILURE
    for part in (str(path), *parts):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_real_recordings(path):
    """Catches a check that refuses what the engine writes."""
    assert len(load_recording(path).rounds) > 10


def test_a_recording_that_was_cut_off(tmp_path):
    """Catches a recording that is lost because its last line, or the last character, is incomplete."""
    whole = recording(tmp_path / "a.jsonl")
    for number, rest in enumerate((b"", b'{"round":{"index":3', '{"round":"é'.encode()[:-1])):
        path = cut(write_recording(tmp_path / f"{number}.jsonl"), 5, rest)
        trace = load_recording(path)
        assert trace.rounds == whole.rounds[:3]
        assert trace.summary is None


def test_no_rounds(tmp_path):
    """Catches a crash, or an empty screen, for a recording that ended in the prefill."""
    for lines in (1, 2):
        refused(cut(write_recording(tmp_path / "a.jsonl"), lines), "has no rounds")


def test_a_marker_of_a_round_that_is_not_there(tmp_path):
    """Catches a lesson that stops short of its text without a word, or a crash when it gets there."""
    path = write_recording(tmp_path / "a.jsonl")
    rounds = len(load_recording(path).rounds)
    write_markers(path, [Marker(rounds - 1, "The last.")])
    assert load_recording(path).markers == (Marker(rounds - 1, "The last."),)
    for number in (rounds, -1):
        write_markers(path, [Marker(number, "Nowhere.")])
        refused(path, f"a marker for round {number}, but rounds 0 to {rounds - 1}")


@pytest.mark.parametrize("content", [b"", b"\n", b"hello", b"{", b"\xff\xfe", b"[]\n{}\n"])
def test_no_trace(tmp_path, content):
    """Catches a traceback where any file may be given."""
    (tmp_path / "a.jsonl").write_bytes(content)
    refused(tmp_path / "a.jsonl")


def set_in(values: list[dict[str, Any]], line: int, *path: str | int, to: object) -> None:
    at: Any = values[line]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda v: set_in(v, 0, "prompt", to=3), "header"),
        (lambda v: v[0].pop("method"), "header"),
        (lambda v: set_in(v, 0, "seed", to="x"), "header"),
        (lambda v: set_in(v, 0, "info", "temperature", to="hot"), "header"),
        (lambda v: set_in(v, 1, "prompt_tokens", to=None), "header"),
        (lambda v: set_in(v, -1, "end", to=[]), "summary"),
        (lambda v: v[-1]["end"].pop("text"), "summary"),
        (lambda v: v[-1]["end"].pop("tau"), "summary"),
        (lambda v: set_in(v, -1, "end", "tokens_per_second", to="fast"), "summary"),
        (lambda v: set_in(v, -1, "end", "tokens", to=7), "summary"),
        (lambda v: set_in(v, 4, "text", to=None), "round 2"),
        (lambda v: set_in(v, 4, "round", "index", to=3), "round 2"),
        (lambda v: v.pop(4), "round 2"),
        (lambda v: set_in(v, 4, "round", "draft_ms", to=-1.0), "round 2"),
        (lambda v: set_in(v, 4, "round", "draft_ms", to=float("nan")), "round 2"),
        (lambda v: set_in(v, 4, "round", "verify_ms", to="x"), "round 2"),
        (lambda v: set_in(v, 4, "round", "path", to=[0, 99]), "round 2"),
        (lambda v: set_in(v, 4, "round", "path", to=[]), "round 2"),
        (lambda v: set_in(v, 4, "round", "path", to=[0]), "round 2"),
        (lambda v: set_in(v, 4, "round", "bonus", to=5), "round 2"),
        (lambda v: set_in(v, 4, "round", "bonus_target", to="x"), "round 2"),
        (lambda v: set_in(v, 4, "round", "new", to=[]), "round 2"),
        (lambda v: set_in(v, 4, "round", "tree", "parents", 0, to=0), "round 2"),
        (lambda v: set_in(v, 4, "round", "tree", "parents", 3, to=7), "round 2"),
        (lambda v: set_in(v, 4, "round", "tree", "parents", 3, to="x"), "round 2"),
        (lambda v: set_in(v, 4, "round", "tree", "values", to=[1.0]), "round 2"),
        (lambda v: set_in(v, 4, "round", "tree", "values", 2, to=None), "round 2"),
        (lambda v: set_in(v, 4, "round", "tree", "dropped", 0, "parent", to=50), "round 2"),
        (lambda v: set_in(v, 4, "round", "tree", "drawn", to=["x"]), "round 2"),
        (lambda v: set_in(v, 4, "round", "tree", "noise", to=["x"]), "round 2"),
        (lambda v: set_in(v, 4, "round", "tree", "cutoff", to="low"), "round 2"),
        (lambda v: set_in(v, 4, "round", "tree", to={}), "damaged"),
    ],
)
def test_damage(tmp_path, damage: Damage, said: str):
    """Catches a value that is JSON, but a traceback as soon as it is drawn."""
    path = write_recording(tmp_path / "a.jsonl")
    values = [json.loads(line) for line in path.read_text().splitlines()]
    damage(values)
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    refused(path, "is damaged", said)


def test_compressed_traces(tmp_path: Path) -> None:
    """Catches traces that only some commands can read, and a traceback over half a compressed one."""
    plain = write_recording(tmp_path / "a.jsonl")
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert load_recording(packed) == load_recording(plain)
    whole = packed.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:30] + bytes(20) + whole[50:]):
        packed.write_bytes(damaged)
        refused(packed, "cannot be read")
