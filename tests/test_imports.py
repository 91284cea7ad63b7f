"""What every way of starting may import: the screen must not wait for the engine, nor the engine need one.

A new command that needs no model is one more line of `PRINTED`, or of `SHOWN` where it has a screen.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TRACE = ROOT / "screenshots" / "traces" / "plain.jsonl"
HEAVY = ("torch", "transformers", "numpy", "tokenizers", "huggingface_hub", "engine")
SCREEN = ("textual", "rich", "typer")
PRINTED = (  # command lines that need no screen either
    "--help",
    "--version",
    "bench --help",
    "race --help",
    "--show-completion bash",
    "chats",
    "export {trace} --to {folder}/a.html",
)
SHOWN = ("replay {trace}", "tour 2", "config")  # the last one lists the keys of the screens
SCREENS = ("eagle_chat.replay_app", "eagle_chat.tour.app")  # what the others show in a terminal
PROBE = """
import importlib, sys
names, modules, *lines = (line.split() for line in sys.argv[1:])
from eagle_chat.__main__ import main
for line in lines:
    sys.argv = ["eagle-chat", *line]
    try:
        main()
    except SystemExit as end:
        assert not end.code, line
    print("IMPORTED", line, [name for name in names if name in sys.modules], file=sys.stderr)
for module in modules:
    importlib.import_module(module)
    print("IMPORTED", module, [name for name in names if name in sys.modules], file=sys.stderr)
"""
COMPLETION = {"_EAGLE_CHAT_COMPLETE": "complete_bash", "COMP_WORDS": "eagle-chat re", "COMP_CWORD": "1"}


def imported(code: str, *arguments: str, environment: dict[str, str] | None = None) -> list[str]:
    """The lines that say so; the process must not have failed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, check=False, env=os.environ | (environment or {}),
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("IMPORTED")]
    assert lines, done.stderr
    assert "Traceback" not in done.stderr
    return lines


def probed(folder: Path, names: Sequence[str], modules: Sequence[str], lines: Sequence[str]) -> list[str]:
    """What came with each command line, all of them in one process, and then with the modules."""
    filled = [line.format(trace=TRACE, folder=folder) for line in lines]
    data = {"EAGLE_CHAT_DATA_DIR": str(folder), "XDG_CONFIG_HOME": str(folder)}
    found = imported(PROBE, " ".join(names), " ".join(modules), *filled, environment=data)
    assert len(found) == len(lines) + len(modules)
    return found


def test_what_is_printed_needs_no_engine_and_no_screen(tmp_path: Path) -> None:
    """Catches seconds of imports before a line of help."""
    for line in probed(tmp_path, (*HEAVY, "textual"), (), PRINTED):
        assert line.endswith("[]"), line


def test_what_is_recorded_needs_no_engine(tmp_path: Path) -> None:
    """Catches an import that makes a replay or the tour need torch, or wait for it."""
    for line in probed(tmp_path, HEAVY, SCREENS, SHOWN):
        assert line.endswith("[]"), line


def test_the_engine_names_no_screen() -> None:
    """Catches an engine that cannot be used without the app's libraries."""
    for path in (ROOT / "engine").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & {*SCREEN, "eagle_chat"}, path


@pytest.mark.slow
def test_completion_is_light() -> None:
    """Catches a tab key that waits for torch."""
    code = (
        "import atexit, sys\n"
        f"names = {(*HEAVY, 'textual')!r}\n"
        "tell = lambda: print('IMPORTED', [name for name in names if name in sys.modules], file=sys.stderr)\n"
        "atexit.register(tell)\n"
        "from eagle_chat.__main__ import main\n"
        "main()\n"
    )
    assert imported(code, environment=COMPLETION) == ["IMPORTED []"]


@pytest.mark.slow
def test_the_engine_has_no_screen() -> None:
    """Catches the same through a library. Looked at module by module."""
    code = (
        "import importlib, pkgutil, sys, engine\n"
        "modules = [found.name for found in pkgutil.walk_packages(engine.__path__, 'engine.')]\n"
        "assert len(modules) > 10\n"
        "for name in modules: importlib.import_module(name)\n"
        f"names = {(*SCREEN, 'eagle_chat')!r}\n"
        "print('IMPORTED', [name for name in names if name in sys.modules], file=sys.stderr)\n"
    )
    assert imported(code) == ["IMPORTED []"]
