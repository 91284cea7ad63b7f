"""Traces for the tests of replay: made by the scripted session, written and read as any other."""

from __future__ import annotations

import threading
from pathlib import Path

from eagle_chat.recorded import load_recording
from eagle_chat.replaying import Replay
from eagle_chat.trace import Trace, TraceWriter, open_trace
from tests.eagle_chat.fake_session import SKY, FakeSession


def write_recording(path: Path, text: str = SKY, *, method: str = "eagle2") -> Path:
    """The trace of one reply of the scripted session."""
    session = FakeSession(text)
    stop = threading.Event()
    events = session.ask("Why is the sky blue?", seed=7, stop=stop)
    if method == "none":
        events = session.again(method=method, stop=stop)
    with open_trace(path) as file:
        assert file is not None
        writer = TraceWriter(file, session.info)
        for event in events:
            writer.write(event)
    return path


def recording(path: Path, text: str = SKY, *, method: str = "eagle2") -> Trace:
    """The same, read back."""
    return load_recording(write_recording(path, text, method=method))


def cut(path: Path, lines: int, rest: bytes = b"") -> Path:
    """Only the first lines are left, and maybe a part of the next."""
    kept = path.read_bytes().split(b"\n")[:lines]
    path.write_bytes(b"\n".join(kept) + b"\n" + rest)
    return path


def replay_of(path: Path, text: str = SKY, *, method: str = "eagle2") -> Replay:
    """Ready to be played."""
    return Replay(recording(path, text, method=method))
