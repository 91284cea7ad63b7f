"""Tiny models on disk and the command line in this process, for the tests that need them.

Nothing heavy is imported before a test asks for it: the screen's tests need no torch.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SUMMARY_KEYS = [  # of the JSON contract, design.md 7
    "text", "tokens", "new_tokens", "rounds", "tau", "tokens_per_second", "seconds", "timings_ms", "method",
    "model", "weights_sha256", "dtype", "seed", "temperature", "stopped_by",
]  # fmt: skip


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """Standard error without the frame that typer draws around a usage error, on one line."""
        return " ".join(self.err.translate(dict.fromkeys(map(ord, "│╭╮╰╯─"))).split())


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tiny tensors run a hundred times slower where the threads of two tests share two cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama that chats in ChatML."""
    from tests.eagle_chat.tiny_model import write_chat_model

    return write_chat_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def chat_head(chat_model: Path) -> Path:
    """The draft head of `chat_model`."""
    from tests.eagle_chat.tiny_model import write_chat_head

    return write_chat_head(chat_model.parent / "tiny-head", chat_model)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """`eagle-chat` with arguments, as its entry point runs it; an escaping exception fails the test."""
    from eagle_chat.__main__ import main

    def run(*args: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "argv", ["eagle-chat", *map(str, args)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        return Ran(code, *capsys.readouterr())

    return run
