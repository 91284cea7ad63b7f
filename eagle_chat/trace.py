"""Traces: the rounds of a reply as JSON lines, to be read without a model or a tokenizer.

Line 1 is the header: `format`, `version`, what was loaded, the prompt, method and seed. Then come
`prompt_tokens`, a line for every round with the fields of `RoundRecord` and the text it completed, and at the
end the summary of the reply. Token bytes are strings where they are whole UTF-8 characters and lists of byte
values elsewhere. Numbers are rounded to five digits. The whole may be packed with gzip.

At temperature above 0, `tree.noise` and `bonus_noise` are the noise that the target added to its
log-probabilities, null for nodes it was not asked about. They came later: a trace without them is whole.

Markers turn a trace into a lesson. They are written into a recording afterwards, each a line of its own
anywhere below the header: `{"marker":{"round":3,"text":"…"}}` says `text` when round 3 is over (0 is the
prefill). Version 1 had no markers; it is read as well.
"""

from __future__ import annotations

import gzip
import io
import json
import platform
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from eagle_chat import __version__
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Event, Finished, Prefill, RoundDone, SessionInfo, Started
from eagle_chat.records import Dropped, RoundRecord, SizingRecord, TreeRecord

FORMAT = "eagle-chat-trace"
VERSION = 2
READABLE = (1, VERSION)
PLAIN, PACKED = ".jsonl", ".jsonl.gz"  # endings of their files
GZIP = b"\x1f\x8b"  # how such a file begins; traces are read compressed as well


@dataclass(frozen=True, slots=True)
class Marker:
    """What a lesson says about a round; several of one round are read one after the other."""

    round: int
    text: str


@dataclass(frozen=True)
class Trace:
    """A trace read back."""

    header: dict[str, Any]
    info: SessionInfo
    prompt_tokens: int
    rounds: list[RoundDone]
    summary: dict[str, Any] | None  # None where the recording was cut off
    markers: tuple[Marker, ...] = ()  # by round


class TraceWriter:
    """Writes the events of a session as they come."""

    def __init__(self, file: IO[str], info: SessionInfo) -> None:
        self._file = file
        self._info = info

    def write(self, event: Event) -> None:
        """Record the events that belong into a trace; others pass."""
        match event:
            case Started(prompt=prompt, method=method, seed=seed):
                with suppress(OSError):  # a pipe or a device has nothing to replace
                    self._file.truncate(0)
                self._line(self._header(prompt, method, seed))
            case Prefill(done=done, total=total) if done == total:
                self._line({"prompt_tokens": total})
            case RoundDone(record=record, text=text):
                self._line({"round": _plain(asdict(record)), "text": text})
            case Finished(summary=summary):
                self._line({"end": summary})

    def _header(self, prompt: str, method: str, seed: int) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "eagle_chat": __version__,
            "recorded": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": platform.machine(),
            "info": asdict(self._info),
            "prompt": prompt,
            "method": method,
            "seed": seed,
        }

    def _line(self, value: dict[str, Any]) -> None:
        try:
            self._file.write(_line(value))
            self._file.flush()
        except OSError as error:
            raise EagleChatError(
                f"the trace {self._file.name} cannot be written ({error.strerror}): free some space, or "
                "leave --trace out"
            ) from None


def ending(path: Path) -> str:
    """Of a file's name; that of a packed trace has two parts."""
    whole = "".join(path.suffixes[-2:]).lower()
    return whole if whole == PACKED else path.suffix.lower()


def trace_bytes(info: SessionInfo, events: Iterable[Event]) -> bytes:
    """The trace of a reply that is over, from its events."""
    file = io.StringIO()
    writer = TraceWriter(file, info)
    for event in events:
        writer.write(event)
    return file.getvalue().encode()


@contextmanager
def open_trace(path: Path | None) -> Iterator[IO[str] | None]:
    """The file to record to, opened before anything slow happens; None stays None."""
    if path is None:
        yield None
        return
    try:
        file = path.open("a", encoding="utf-8")  # what is there is replaced when there is something better
    except OSError as error:
        raise UsageError(
            f"the trace cannot be written to {path} ({error.strerror}): give another --trace"
        ) from None
    try:
        yield file
    finally:
        with suppress(OSError):  # said already, when a line could not be written
            file.close()


def read_trace(path: Path) -> Trace:
    """Raises EagleChatError naming file and line for anything that is no trace of a version known here."""
    values = _values(path)
    try:
        info = SessionInfo(**{**values[0]["info"], "notes": tuple(values[0]["info"]["notes"])})
        prompt_tokens = next((value["prompt_tokens"] for value in values if "prompt_tokens" in value), 0)
        rounds = [RoundDone(_round(each["round"]), each["text"]) for each in values[1:] if "round" in each]
        markers = sorted(_markers(values), key=lambda marker: marker.round)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EagleChatError(f"{path} is damaged ({error})") from None
    summary = next((value["end"] for value in values if "end" in value), None)
    return Trace(values[0], info, prompt_tokens, rounds, summary, tuple(markers))


def write_markers(path: Path, markers: Iterable[Marker]) -> None:
    """Make these the markers of the trace, in place of those it had."""
    header, *values = (value for value in _values(path) if "marker" not in value)
    lines = [header | {"version": VERSION}, *values, *({"marker": asdict(marker)} for marker in markers)]
    data = "".join(map(_line, lines)).encode()
    try:
        packed = path.read_bytes().startswith(GZIP)
        path.write_bytes(gzip.compress(data, mtime=0) if packed else data)
    except OSError as error:
        raise EagleChatError(
            f"the markers cannot be written to {path} ({error.strerror}): make it writable, or mark a copy"
        ) from None


def _values(path: Path) -> list[dict[str, Any]]:
    """Every line as an object, the first one a header this program knows."""
    try:
        lines = _lines(path)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise EagleChatError(f"the trace {path} cannot be read ({error})") from None
    values = [_parse(path, number, line) for number, line in enumerate(lines, start=1)]
    if not values or values[0].get("format") != FORMAT:
        raise EagleChatError(f"{path} is not an eagle-chat trace")
    if values[0].get("version") not in READABLE:
        raise EagleChatError(
            f"{path} is a trace of version {values[0].get('version')}, "
            f"this program reads {' and '.join(map(str, READABLE))}"
        )
    return values


def _markers(values: list[dict[str, Any]]) -> list[Marker]:
    """Raises TypeError where one is damaged: rounds are sorted by number, and texts shown."""
    markers = [Marker(**each["marker"]) for each in values if "marker" in each]
    if not all(type(marker.round) is int and isinstance(marker.text, str) for marker in markers):
        raise TypeError("a marker needs a round and a text")
    return markers


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def _lines(path: Path) -> list[str]:
    """All lines, but not a last one that was being written when the recording was cut off."""
    data = path.read_bytes()
    if data.startswith(GZIP):
        data = gzip.decompress(data)
    finished, _, last = data.rpartition(b"\n")
    whole = data if not finished or _value(last) is not None else finished
    # Not splitlines: a string in JSON may hold other characters that end a line.
    return whole.decode("utf-8").split("\n")


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    value = _value(line)
    if value is None:
        raise EagleChatError(f"{path}: line {number} is not a JSON object")
    return value


def _value(line: str | bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _round(value: dict[str, Any]) -> RoundRecord:
    tree = value["tree"]
    dropped = tuple(Dropped(**{**node, "text": _bytes(node["text"])}) for node in tree["dropped"])
    record = TreeRecord(
        tokens=tuple(tree["tokens"]),
        texts=tuple(map(_bytes, tree["texts"])),
        parents=tuple(tree["parents"]),
        values=None if tree["values"] is None else tuple(tree["values"]),
        target=None if tree["target"] is None else tuple(tree["target"]),
        noise=None if tree.get("noise") is None else tuple(tree["noise"]),  # older traces have none
        looked_up=tree.get("looked_up", 0),
        dropped=dropped,
        drawn=tuple(tree["drawn"]),
        cutoff=tree["cutoff"],
        sizing=SizingRecord(**tree["sizing"]) if tree.get("sizing") else None,  # older traces have none
    )
    sequences = {name: tuple(value[name]) for name in ("new", "path")}
    return RoundRecord(**{**value, **sequences, "texts": tuple(map(_bytes, value["texts"])), "tree": record})


def _plain(value: Any) -> Any:
    """JSON-ready: bytes as text where they are text, floats short."""
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return list(value)
        case float():
            return float(f"{value:.5g}")
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    return value


def _bytes(value: str | list[int]) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
