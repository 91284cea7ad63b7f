"""Wrong options, prompts and streams: one sentence, the right exit code, never a traceback."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE
from tests.eagle_chat.conftest import Ran

pytestmark = pytest.mark.usefixtures("one_thread")

Tiny = Callable[..., Ran]


@pytest.fixture
def tiny(command, chat_model, chat_head) -> Tiny:
    """`eagle-chat run` with the tiny model and its head, and what comes after."""

    def run(*args: object, stdin: bytes = b"") -> Ran:
        usual = ("--model", chat_model, "--head", chat_head, "--dtype", "fp32", "--max-new-tokens", "4")
        return command("run", *usual, *args, stdin=stdin)

    return run


def assert_refused(ran: Ran, *parts: str, code: int = EXIT_USAGE) -> None:
    """One sentence that says all `parts`, nothing on standard output."""
    assert ran.code == code, ran.err
    assert ran.out == ""
    for part in parts:
        assert part in ran.sentence, ran.err
    assert "Traceback" not in ran.err
    ours = ran.err.startswith("eagle-chat: ")
    assert ours or "Invalid value for" in ran.err or "No such" in ran.err, ran.err
    if ours:
        assert ran.err.count("\n") == 1, ran.err


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--nodes", "0", "greater than or equal to 1"),
        ("--nodes", "2.5", "valid integer"),
        ("--nodes", "100000", "less than or equal to 1024"),
        ("--depth", "0", "greater than or equal to 1"),
        ("--depth", "1000000000", "less than or equal to 64"),
        ("--beam", "-3", "greater than or equal to 1"),
        ("--beam", "100000", "less than or equal to 128"),
        ("--temperature", "-0.1", "greater than or equal to 0"),
        ("--temperature", "nan", "greater than or equal to 0"),
        ("--temperature", "inf", "not a finite number"),
        ("--temperature", "1e-300", "too small: use 0"),
        ("--top-p", "0", "not above 0 and at most 1"),
        ("--top-p", "1.5", "not above 0 and at most 1"),
        ("--top-p", "nan", "not above 0 and at most 1"),
        ("--top-k", "-1", "greater than or equal to 0"),
        ("--min-p", "2", "less than or equal to 1"),
        ("--min-p", "nan", "or equal to"),
        ("--repetition-penalty", "0", "greater than or equal to 0.01"),
        ("--repetition-penalty", "inf", "not a finite number"),
        ("--max-new-tokens", "0", "greater than or equal to 1"),
        ("--seed", "-1", "greater than or equal to 0"),
        ("--seed", str(2**63), "less than or equal to"),
        ("--dtype", "int8", "'int8' is not one of 'auto', 'bf16', 'fp16', 'fp32'"),
        ("--method", "guess", "'guess' is not one of"),
        ("--system", "a\udcffb", "not valid UTF-8"),
        ("--trace", "/", "is a directory"),
    ],
)
def test_values_out_of_range(command, option, value, said):
    """Catches a value that reaches the engine, where it is a traceback, a hang or nonsense."""
    assert_refused(command("run", "Hi", option, value), option, said)


def test_unknown_option_and_command(command):
    """Catches a mistyped word that is taken for something else."""
    assert_refused(command("run", "Hi", "--temprature", "1"), "No such option: --temprature")
    assert_refused(command("runn", "Hi"), "No such command 'runn'", "Did you mean 'run'?")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--nodes", 37, "--depth", 3, "--beam", 4), ("nodes 37", "36 candidates", "lower nodes, or raise")),
        (("--nodes", 5, "--depth", 1, "--beam", 4), ("nodes 5", "4 candidates")),
        (("--device", "abacus"), ("device 'abacus' cannot be used here (no such name)", "try --device cpu")),
        (
            ("--device", "hip"),
            ("device 'hip' cannot be used here (this PyTorch has no hip)", "try --device cpu"),
        ),
        (("--device", "meta"), ("device 'meta' cannot be used here", "try --device cpu")),
        (("--method", "pld"), ("--head has no use with --method pld", "leave one of them out")),
        (("--method", "none"), ("--head has no use with --method none", "leave one of them out")),
        (("--method", "eagle", "--beam", 4), ("--beam has no use with --method eagle", "--depth")),
    ],
)
def test_options_that_do_not_fit_each_other(tiny, arguments, said):
    """Catches an option that is silently ignored, or fails deep inside."""
    assert_refused(tiny("Hi", *arguments), *said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--method", "lookahead", "--nodes", 4), ("--nodes has no use with --method lookahead", "--beam")),
        (("--method", "none", "--depth", 4), ("--depth has no use with --method none",)),
        (("--method", "draft-model"), ("--method draft-model needs the small model", "--head")),
        (("--method", "draft-model-sampled"), ("needs the small model", "--head")),
        (("--method", "eagle2"), ("no draft head is known for", "--head", "--method pld")),
        (("--method", "eagle2+pld"), ("no draft head is known for", "--head", "--method pld")),
    ],
)
def test_methods_without_what_they_need(command, chat_model, arguments, said):
    """Catches a method that quietly becomes another one, and a tree option a chain has no use for."""
    assert_refused(command("run", "Hi", "--model", chat_model, *arguments), *said)


@pytest.mark.parametrize("prompt", ["", "  \n\t "])
def test_empty_prompt(tiny, prompt):
    """Catches an empty prompt that costs a model's loading before it is noticed."""
    for ran in (tiny(prompt), tiny(stdin=prompt.encode()), tiny("-", stdin=prompt.encode())):
        assert_refused(ran, "prompt is empty", "as an argument or on standard input")


def test_prompt_that_is_no_text(tiny, command):
    """Catches a decoding error's traceback for binary data."""
    assert_refused(tiny(stdin=b"ab\xffcd"), "standard input is not valid UTF-8 (byte 2)", "convert it")
    assert_refused(command(stdin=b"\x80"), "standard input is not valid UTF-8 (byte 0)")
    assert_refused(tiny("ab\udcffcd"), "the prompt is not valid UTF-8", "convert it")


def test_prompt_longer_than_the_context(tiny):
    """Catches a crash in a forward beyond the last position."""
    ran = tiny("long " * 3000)
    assert_refused(ran, "tokens and the context holds 2048", "shorten it")


@pytest.mark.parametrize("path", ["missing/trace.jsonl", "."])
def test_trace_that_cannot_be_written(tiny, tmp_path, path):
    """Catches a recording that fails only after the reply."""
    assert_refused(tiny("Hi", "--trace", tmp_path / path), str(tmp_path / path)[:40])


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")


@needs_full
def test_trace_on_a_full_disk(tiny):
    """Catches a traceback where the disk fills up in the middle."""
    said = ("the trace /dev/full cannot be written", "No space left", "free some space")
    assert_refused(tiny("Hi", "--trace", "/dev/full"), *said, code=EXIT_FAILURE)


@needs_full
def test_standard_output_on_a_full_disk(tiny, monkeypatch):
    """Catches a traceback for `eagle-chat run … > file` on a full disk."""
    for options in ((), ("--json",)):
        with open("/dev/full", "w", encoding="utf-8") as full, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", full)
            ran = tiny("Hi", *options)
        assert_refused(ran, "standard output cannot be written (No space left", code=EXIT_FAILURE)


def started(*args: object, **streams: object) -> subprocess.Popen[bytes]:
    """The program in a process of its own."""
    command = [sys.executable, "-m", "eagle_chat", *map(str, args)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, **pipes)  # type: ignore[call-overload]


def ended(process: subprocess.Popen[bytes]) -> Ran:
    out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out.decode(), err.decode())


def test_no_terminal_and_nothing_on_standard_input():
    """Catches a program that waits for ever where nobody can type."""
    assert_refused(ended(started()), "the prompt is empty", "on standard input")


def test_terminal_that_cannot_show_the_chat():
    """Catches the screen being drawn into a file, and `run` waiting for a prompt typed blindly."""
    ours, theirs = pty.openpty()
    try:
        assert_refused(ended(started(stdin=theirs)), "not a terminal", "eagle-chat run PROMPT")
        assert_refused(ended(started("run", stdin=theirs)), "there is no prompt", "standard input")
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(("redirection", "said"), [("<&-", "there is no prompt"), ("< /dev/null", "empty")])
def test_closed_standard_input(redirection, said):
    """Catches a crash where a service starts programs without standard streams."""
    for command in ("", "run"):
        line = f"exec {sys.executable} -m eagle_chat {command} {redirection}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert_refused(Ran(done.returncode, done.stdout, done.stderr), said)


def test_closed_standard_output():
    """Catches the same at the other end."""
    line = f"exec {sys.executable} -m eagle_chat run Hi >&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert_refused(Ran(done.returncode, done.stdout, done.stderr), "standard output is closed")


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """A reply longer than a pipe holds, so that it cannot end before the test looks."""
    from tests.eagle_chat.tiny_model import write_chat_model

    model = write_chat_model(tmp_path_factory.mktemp("endless") / "model", max_position_embeddings=1_000_000)
    return ("run", "Hi", "--model", model, "--dtype", "fp32", "--max-new-tokens", 900_000, "--method", "none")


def test_reader_that_has_enough(endless):
    """Catches a traceback, or Python's own complaint at exit, for `eagle-chat run … | head`."""
    process = started(*endless)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(5)
    process.stdout.close()
    assert process.wait(timeout=60) == EXIT_FAILURE
    with process.stderr:
        assert process.stderr.read() == b""


def test_interrupt_keeps_the_text(endless):
    """Catches Ctrl+C that loses what was said, hangs, or is reported as success."""
    process = started(*endless)
    assert process.stdout is not None
    first = process.stdout.read(5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == EXIT_INTERRUPTED
    assert (first + out).endswith(b"\n")
    narration = err.decode().splitlines()
    assert len(narration) == 1
    assert narration[0].endswith(" · stopped")


def test_interrupt_while_loading(command, monkeypatch):
    """Catches Ctrl+C that is kept for later while gigabytes are being downloaded."""

    def download(*args: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the download went on")

    monkeypatch.setattr("eagle_chat.hub.download", download)
    ran = command("run", "Hi", "--model", "owner/name")
    assert ran.code == EXIT_INTERRUPTED
    assert ran.out == ""
    assert "Traceback" not in ran.err


def test_good_input_is_not_refused(tiny):
    """Catches limits that are too narrow: each value here is the last one that is allowed."""
    largest = ("--nodes", 36, "--depth", 3, "--beam", 4, "--seed", 2**63 - 1, "--top-p", 1, "--min-p", 1)
    assert (
        tiny("Hi", *largest, "-t", 0.001, "--repetition-penalty", 0.01, "--top-k", 10**30).code == EXIT_DONE
    )
