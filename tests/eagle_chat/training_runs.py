"""What the tests of `eagle-chat train` have in common: conversations, interruptions, and looks at a run."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest
import torch

from eagle_chat.errors import EXIT_DONE
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Options
from eagle_chat.train import Job, train
from eagle_chat.training import Event
from eagle_chat.training_log import TrainingLog, read_log

SAID = ("Why is the sky blue? ", "Because the air scatters short waves. ")


def write_run(folder: Path, model: Path) -> Path:
    """A whole run of a small head for a tiny model."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert train(Options(str(model), dtype=Dtype.FP32), Job(folder, tokens=1500)) == EXIT_DONE
    torch.set_num_threads(before)
    return folder


def write_messages(path: Path, conversations: int, repeat: int = 1) -> Path:
    """A file of conversations of two turns, each with words of its own."""
    lines = []
    for i in range(conversations):
        texts = [f"{i}. {text * repeat}" for text in SAID]
        messages = [
            {"role": role, "content": text} for role, text in zip(("user", "assistant"), texts, strict=True)
        ]
        lines.append(json.dumps({"id": i, "messages": messages}))
    path.write_text("\n".join(lines) + "\n")
    return path


def interrupt_at(
    monkeypatch: pytest.MonkeyPatch, kind: type[Event], count: int, number: int = signal.SIGINT
) -> None:
    """Ctrl+C, or another signal, arrives when the log takes in event `count` of a kind."""
    seen: list[Event] = []
    record = TrainingLog.record

    def watched(self: TrainingLog, event: Event) -> None:
        seen.append(event)
        if sum(isinstance(event, kind) for event in seen) == count and isinstance(event, kind):
            os.kill(os.getpid(), number)
        record(self, event)

    monkeypatch.setattr(TrainingLog, "record", watched)


def assert_no_repeats(folder: Path) -> list[dict]:
    """The records of a run: none twice, each stage moving on."""
    records = read_log(folder / "training.jsonl")
    for kind, at in (
        ("conversations", "tokens"),
        ("start", "pairs"),
        ("step", "pairs"),
        ("validation", "pairs"),
    ):
        places = [record[at] for record in records if record["event"] == kind]
        assert places == sorted(set(places)), kind
    return records


def says(model: Path, head: Path, **options) -> tuple[str, dict]:
    """A reply with the head, and its summary; that plain decoding says the same."""
    session = load_session(
        Options(str(model), str(head), dtype=Dtype.FP32, max_new_tokens=40, **options),
        lambda event: None,
        sized=False,
    )
    *_, reply = session.ask("Why is the sky blue?", seed=3, stop=threading.Event())
    *_, plain = session.again(method="none", stop=threading.Event())
    assert reply.text == plain.text
    return reply.text, reply.summary
