"""How the user wants the screen to look, and the one choice about it that is remembered: the theme."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
import typer

from eagle_chat.configuration import config_path, is_given, settings

VARIABLE = "EAGLE_CHAT_STATE_DIR"


def state_path() -> Path:
    """Where the program notes what it should remember; the configuration file is the user's alone."""
    named = os.environ.get(VARIABLE)
    return (Path(named) if named else platformdirs.user_state_path("eagle-chat")) / "look.json"


@dataclass(frozen=True)
class Look:
    """What an application is told about its looks."""

    configured: str | None = None  # theme of the configuration file
    ascii_only: bool = False
    keymap: Mapping[str, str] = field(default_factory=dict)  # keys by the id of a binding
    themes: Path | None = None  # folder of the user's own
    memory: Path | None = None  # file in which a theme that was chosen on the screen is kept

    def remembered(self) -> str | None:
        """The theme chosen last, unless the configuration has named another one since."""
        if self.memory is None:
            return None
        try:
            noted = json.loads(self.memory.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # a note that cannot be read is none
            return None
        if not isinstance(noted, dict) or noted.get("configured") != self.configured:
            return None
        theme = noted.get("theme")
        return theme if isinstance(theme, str) else None

    def remember(self, theme: str) -> None:
        """Keep it for the next start. What cannot be written is forgotten."""
        if self.memory is None:
            return
        new = self.memory.with_suffix(f".{os.getpid()}")
        try:
            self.memory.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps({"theme": theme, "configured": self.configured}), encoding="utf-8")
            new.replace(self.memory)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()


def chosen(ctx: typer.Context, theme: str | None, ascii_only: bool) -> tuple[str | None, Look]:
    """The theme that is asked for now, if one is, and the look that options and configuration give."""
    from eagle_chat.keys import keymap

    path = config_path()
    outside = settings(ctx)
    found = outside.options.get("theme")
    configured = None
    if found is not None and found.source == str(path):
        configured = found.value
        if not is_given(ctx, "theme"):
            theme = None
    look = Look(configured, ascii_only, keymap(outside.keys, str(path)), path.parent / "themes", state_path())
    return theme, look
