"""`--server` on the command line: what it prints, what it refuses, and what it never imports."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eagle_chat.errors import EXIT_FAILURE
from eagle_chat.options import Options
from eagle_chat.plain import PlainChat
from eagle_chat.server.session import connect
from tests.eagle_chat.conftest import SUMMARY_KEYS, Ran, assert_refused
from tests.eagle_chat.http_server import Script, delta, raw, serving, sky

Command = Callable[..., Ran]


@pytest.fixture
def script() -> Script:
    """A server that always replies that the sky is blue."""
    return Script(replies=[sky])


@pytest.fixture
def address(script: Script) -> Iterator[str]:
    """Where that server is."""
    with serving(script) as url:
        yield url


def test_run(command: Command, address: str) -> None:
    """Catches text and figures on the wrong stream, and a clock that is not said to be ours."""
    ran = command("run", "--server", f"{address}/v1/", "--seed", "7", "sky?")
    assert (ran.code, ran.out) == (0, "The sky is blue.\n")
    figures, drafts = ran.err.splitlines()
    assert figures.startswith("7 tokens · ")
    assert figures.endswith(" tok/s · server · seed 7 · by our clock")
    assert drafts == "The server does not say how much of its drafts it accepts."


def test_run_json(command: Command, address: str) -> None:
    """Catches keys that scripts know and do not find."""
    ran = command("run", "--json", "--server", address, stdin=b"sky?")
    summary = json.loads(ran.out)
    assert list(summary) == [*SUMMARY_KEYS, "server"]
    assert summary["server"] == {"address": address, "prompt_tokens": 9, "pieces": 4, "acceptance": None}


def test_a_failure_leaves_what_came(command: Command, script: Script, address: str) -> None:
    """Catches text that is swallowed, or run into by the sentence about what went wrong."""
    script.replies = [raw(delta("The sky"))]
    ran = command("run", "--server", address, "sky?")
    assert (ran.code, ran.out) == (EXIT_FAILURE, "The sky\n")
    assert ran.err.startswith(f"eagle-chat: The server {address} ended the stream before")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--head", "x"], "--head does not go with --server"),
        (["--nodes", "60"], "--nodes does not go with --server"),
        (["--dtype", "auto"], "--dtype does not go with --server"),
        (["--method", "eagle2"], "--method does not go with --server"),
        (["--device", "cpu"], "--device does not go with --server"),
        (["--compare"], "A server decodes as it was started"),
        (["--trace", "x.jsonl"], "--trace records rounds"),
        (["--model", "phi"], "has no model phi; it has llama"),
    ],
)
def test_refused(command: Command, script: Script, address: str, arguments: list[str], said: str) -> None:
    """Catches options that a server cannot follow and that would be passed over in silence."""
    assert_refused(command("run", "--server", address, *arguments, "sky?"), said)
    assert script.requests == []


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://host", "http://", "http://me:secret@host", "http://host/?key=secret", "http://host:port"],
)  # fmt: skip
def test_no_address(command: Command, url: str) -> None:
    """Catches an address that fails late, and a password that is printed."""
    ran = command("run", "--server", url, "sky?")
    assert ran.code == 2
    assert "Invalid value for '--server'" in ran.sentence
    assert "secret" not in ran.err


def test_commands_that_look_into_the_model(command: Command, address: str, sky: Path) -> None:
    """Catches a measurement of the default model where the server's was meant."""
    for name in ("evaluate", "bench"):
        assert_refused(command("--server", address, name, "--questions", sky), "leave --server out")


def test_configuration_of_local_models(
    command: Command, script: Script, address: str, no_configuration: Path
) -> None:
    """Catches a server that refuses, or is asked for, what is configured for models on this machine."""
    no_configuration.write_text('model = "mine"\ndtype = "bf16"\nnodes = 8\n')
    assert command("run", "--server", address, "sky?").code == 0
    no_configuration.write_text(f'server = "{address}"\nmodel = "mine"\n')
    assert_refused(command("run", "sky?"), "has no model mine; it has llama")


def test_line_by_line(
    script: Script, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches a plain chat that shows no text of a server, or trees it does not have."""
    session = connect(Options(model="", server=address, top_k=3), lambda loading: None)
    monkeypatch.setattr(sys, "stdin", io.StringIO("sky?\n/tree\n"))
    ran = Ran(PlainChat(session).run(), *capsys.readouterr())
    assert ran.out == "The sky is blue.\n"
    assert "7 tokens, " in ran.err
    assert "A server does not show its draft trees." in ran.err


def test_nothing_heavy_is_imported(address: str) -> None:
    """Catches seconds of waiting for a library that runs no model here."""
    program = (
        "import sys\nfrom eagle_chat.__main__ import main\n"
        f"sys.argv = ['eagle-chat', 'run', '--server', '{address}', 'sky?']\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "print([name for name in ('torch', 'transformers', 'textual', 'engine') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "The sky is blue.\n[]\n"
