"""Tiny models on disk, the command line in this process and what it refuses, for the tests that need them.

Nothing heavy is imported before a test asks for it: the screen's tests need no torch.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from eagle_chat.errors import EXIT_USAGE

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


def assert_refused(ran: Ran, *parts: str) -> None:
    """One sentence of ours that says all `parts`, nothing on standard output."""
    assert ran.code == EXIT_USAGE, ran.err
    assert ran.out == ""
    assert ran.err.startswith("eagle-chat: ")
    assert ran.err.count("\n") == 1, ran.err
    for part in parts:
        assert part in ran.err


@pytest.fixture(autouse=True)
def no_configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration file of this test, which is not there yet; never that of whoever runs the tests."""
    folder = tmp_path_factory.mktemp("configuration")
    monkeypatch.setenv("EAGLE_CHAT_CONFIG", str(folder / "config.toml"))
    monkeypatch.setenv("EAGLE_CHAT_STATE_DIR", str(folder / "state"))
    return folder / "config.toml"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where conversations are saved: not among those of whoever runs the tests."""
    monkeypatch.setenv("EAGLE_CHAT_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


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


@pytest.fixture
def train(
    command: Callable[..., Ran], chat_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """`eagle-chat train` of a small head for the tiny model; the run's folder is `tmp_path / "run"`."""
    from engine.training import Speeds

    monkeypatch.setattr("engine.training.measure_speeds", lambda *how: Speeds(1000.0, 1000.0))

    def run(*args: object, model: Path = chat_model, out: Path = tmp_path / "run") -> Ran:
        sizes = [] if {"--tokens", "--minutes", "--resume"} & {*args} else ["--tokens", 1500]
        return command("train", "--model", model, "--out", out, "--dtype", "fp32", *sizes, *args)

    return run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, chat_model: Path) -> Path:
    """The folder of a whole run of `eagle-chat train`; copy it before changing anything."""
    from tests.eagle_chat.training_runs import write_run

    return write_run(tmp_path_factory.mktemp("finished") / "run", chat_model)


@pytest.fixture
def evaluate(command: Callable[..., Ran], chat_model: Path, chat_head: Path) -> Callable[..., Ran]:
    """`eagle-chat evaluate` with the tiny model and its head."""
    options = ("--model", chat_model, "--head", chat_head, "--dtype", "fp32", "--max-new-tokens", "12")

    def run(*args: object) -> Ran:
        return command("evaluate", *options, *args)

    return run


@pytest.fixture
def bench(command: Callable[..., Ran], chat_model: Path, chat_head: Path) -> Callable[..., Ran]:
    """`eagle-chat bench` with the tiny model and its head."""
    options = ("--model", chat_model, "--head", chat_head, "--dtype", "fp32", "--max-new-tokens", "12")

    def run(*args: object) -> Ran:
        return command("bench", *options, *args)

    return run


@pytest.fixture
def sky(tmp_path: Path) -> Path:
    """A file of three questions."""
    from tests.eagle_chat.evaluation_runs import write_questions

    return write_questions(tmp_path / "sky.jsonl", ["Why is the sky blue?"], ["Is it?"], ["And the sea?"])
