"""What was sent before, across sessions: one JSON string a line, appended at once, readable by its owner."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import platformdirs

KEPT = 1000
LONGEST = 20_000  # characters; a pasted book is no use here


def history_path() -> Path:
    """In the user's data folder."""
    return platformdirs.user_data_path("eagle-chat") / "prompts.jsonl"


class PromptHistory:
    """Goes back and forth through what was sent. Without a path it lasts as long as the program."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._sent = self._read()
        self._at = len(self._sent)
        self._draft = ""  # what stood in the prompt before one went back

    def add(self, text: str) -> None:
        """Something was sent. A file that cannot be written is no reason to stop."""
        if text.strip() and len(text) <= LONGEST and self._sent[-1:] != [text]:
            self._sent.append(text)
            self._append(text)
        self._at, self._draft = len(self._sent), ""

    def earlier(self, current: str) -> str | None:
        """What was sent before; None at the beginning."""
        if self._at == 0:
            return None
        if self._at == len(self._sent):
            self._draft = current
        self._at -= 1
        return self._sent[self._at]

    def later(self) -> str | None:
        """What was sent after that, at last what was being written; None there."""
        if self._at == len(self._sent):
            return None
        self._at += 1
        return self._sent[self._at] if self._at < len(self._sent) else self._draft

    def _read(self) -> list[str]:
        """The newest that can be read; a line that was cut off by a crash is left out."""
        if self._path is None:
            return []
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        sent = [text for line in lines if (text := _text(line))]
        if len(lines) > 2 * KEPT:
            self._rewrite(sent[-KEPT:])
        return sent[-KEPT:]

    def _append(self, text: str) -> None:
        if self._path is None:
            return
        line = f"{json.dumps(text)}\n".encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                size = os.fstat(file).st_size
                torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # a crash in the middle of a line
                os.write(file, b"\n" + line if torn else line)  # one call: two programs do not mix lines
            finally:
                os.close(file)
        except OSError:
            return

    def _rewrite(self, sent: list[str]) -> None:
        """All of it or nothing: written beside, then put in place."""
        assert self._path is not None
        try:
            file, name = tempfile.mkstemp(dir=self._path.parent)  # readable by its owner alone
            with os.fdopen(file, "w", encoding="utf-8") as out:
                out.writelines(f"{json.dumps(text)}\n" for text in sent)
            os.replace(name, self._path)
        except OSError:
            return


def _text(line: str) -> str | None:
    try:
        text = json.loads(line)
    except ValueError:
        return None
    return text if isinstance(text, str) else None
