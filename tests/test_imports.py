"""What every way of starting may import: the screen must not wait for the engine, nor the engine need one.

A new command that needs no model is one more line of `LIGHT`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRACE = Path(__file__).parents[1] / "screenshots" / "traces" / "plain.jsonl"
HEAVY = ("torch", "transformers", "numpy", "tokenizers", "huggingface_hub", "engine")
SCREEN = ("textual", "rich", "typer")
PROBE = """
import atexit, sys
names = sys.argv.pop(1).split(",")
atexit.register(lambda: print("IMPORTED", [name for name in names if name in sys.modules], file=sys.stderr))
from eagle_chat.__main__ import main
main()
"""
COMPLETION = {"_EAGLE_CHAT_COMPLETE": "complete_bash", "COMP_WORDS": "eagle-chat re", "COMP_CWORD": "1"}
LIGHT = {  # command line: what it must not import
    "--help": (*HEAVY, "textual"),
    "--version": (*HEAVY, "textual"),
    "bench --help": (*HEAVY, "textual"),
    "--show-completion bash": (*HEAVY, "textual"),
    "replay {trace}": HEAVY,
    "export {trace} --to {folder}/a.html": (*HEAVY, "textual"),
}


def imported(code: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """The line that says so; the process must not have failed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, check=False, env=os.environ | (environment or {}),
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("IMPORTED")]
    assert lines, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


@pytest.mark.parametrize("line", LIGHT)
def test_no_command_imports_what_it_does_not_need(line: str, tmp_path: Path) -> None:
    """Catches seconds of imports before a line of help or a replay."""
    arguments = line.format(trace=TRACE, folder=tmp_path).split()
    assert imported(PROBE, ",".join(LIGHT[line]), *arguments) == "IMPORTED []"


def test_completion_is_light() -> None:
    """Catches a tab key that waits for torch."""
    assert imported(PROBE, ",".join((*HEAVY, "textual")), environment=COMPLETION) == "IMPORTED []"


def test_the_engine_has_no_screen() -> None:
    """Catches an engine that cannot be used without the app's libraries. Looked at module by module."""
    code = (
        "import importlib, pkgutil, sys, engine\n"
        "modules = [found.name for found in pkgutil.walk_packages(engine.__path__, 'engine.')]\n"
        "assert len(modules) > 10\n"
        "for name in modules: importlib.import_module(name)\n"
        f"names = {(*SCREEN, 'eagle_chat')!r}\n"
        "print('IMPORTED', [name for name in names if name in sys.modules], file=sys.stderr)\n"
    )
    assert imported(code) == "IMPORTED []"
