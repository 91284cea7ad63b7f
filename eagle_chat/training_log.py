"""The log of a training run: JSON lines that can be read while they are written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eagle_chat.training import Began, Event, Synthesised
from engine.training import Measured, Trained, Validated

MINUTE = 60.0
EVERY_SECONDS = 10.0  # of training, between two records of it


class TrainingLog:
    """Appends to `file`.

    Records: {"event": "conversations", "tokens", "of", "seconds"}, {"event": "start", "pairs", "of",
    "vocabulary", "covered"}, {"event": "step", "pairs", "of", "learning_rate", "loss", "agreement",
    "seconds"}, a mean over some seconds, and {"event": "validation", "pairs", "loss", "agreement", "best",
    "seconds"}. `loss` (nats) and `agreement` are lists, one number for each unrolled step; seconds are
    those of the stage, of the conversations in one run of the command.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._pending: list[Trained] = []
        self._writing: Synthesised | None = None  # the newest of this run
        self._written = 0.0  # its seconds at the last record

    def record(self, event: Event) -> None:
        """Take an event in."""
        if isinstance(event, Synthesised):
            self._record_conversations(event)
            return
        self._end_conversations()
        if isinstance(event, Began):
            self._forget_training(event.pairs)
            self._write("start", asdict(event))
        elif isinstance(event, Trained):
            self._pending.append(event)
            if event.seconds - self._pending[0].seconds >= EVERY_SECONDS or event.pairs >= event.of:
                self._end_steps()
        elif isinstance(event, Validated):
            self._end_steps()
            look = {"pairs": event.pairs, **_rounded(event.measured)}
            self._write("validation", look | {"best": event.best, "seconds": round(event.seconds, 1)})

    def flush(self) -> None:
        """Write what is pending."""
        self._end_conversations()
        self._end_steps()

    def _record_conversations(self, event: Synthesised) -> None:
        if self._writing is None:  # what a killed run wrote and did not keep comes again
            kept = event.tokens - event.new_tokens
            self._keep(lambda record: record["event"] != "conversations" or record["tokens"] <= kept)
        self._writing = event
        if event.seconds - self._written >= MINUTE:
            self._written = event.seconds
            self._write_conversations(event)

    def _end_conversations(self) -> None:
        event = self._writing
        if event is not None and event.seconds > self._written:
            self._written = event.seconds
            self._write_conversations(event)

    def _write_conversations(self, event: Synthesised) -> None:
        fields = {"tokens": event.tokens, "of": event.of, "seconds": round(event.seconds, 1)}
        self._write("conversations", fields)

    def _end_steps(self) -> None:
        """Write the pending steps as one record."""
        if not self._pending:
            return
        last, mean = self._pending[-1], _mean([step.measured for step in self._pending])
        self._pending = []
        fields: dict[str, Any] = {"pairs": last.pairs, "of": last.of}
        fields |= {"learning_rate": float(f"{last.learning_rate:.3g}"), **mean}
        self._write("step", fields | {"seconds": round(last.seconds, 1)})

    def _forget_training(self, pairs: int) -> None:
        """What came after `pairs`, which a killed run repeats."""

        def is_kept(record: dict[str, Any]) -> bool:
            at = record.get("pairs", 0)
            return at < pairs if record["event"] == "start" else at <= pairs

        self._keep(is_kept)

    def _keep(self, is_kept: Callable[[dict[str, Any]], bool]) -> None:
        """Those records, and no line that was cut."""
        text = "".join(json.dumps(record) + "\n" for record in read_log(self.file) if is_kept(record))
        partial = self.file.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.file)

    def _write(self, event: str, fields: dict[str, Any]) -> None:
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"event": event, **fields}) + "\n")


def read_log(file: Path) -> list[dict[str, Any]]:
    """All records; a line that was cut by a crash is left out."""
    records = []
    if file.is_file():
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and "event" in record:
                records.append(record)
    return records


def _rounded(measured: Measured) -> dict[str, Any]:
    return {name: [round(value, 4) for value in values] for name, values in asdict(measured).items()}


def _mean(measured: list[Measured]) -> dict[str, list[float]]:
    rows = [asdict(one) for one in measured]
    return {
        name: [round(sum(column) / len(rows), 4) for column in zip(*(row[name] for row in rows), strict=True)]
        for name in ("loss", "agreement")
    }
