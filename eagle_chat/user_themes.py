"""The user's own themes: a folder that is looked at now and then, so that a saved file is shown."""

import os
from pathlib import Path

from themes import ThemeError, ThemeSpec, read_theme

Stamp = tuple[int, int]


class UserThemes:
    """Reads what is new or was saved since the last look, in order of file name."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._seen: dict[str, Stamp] = {}

    def look(self) -> tuple[list[ThemeSpec], list[str]]:
        """Themes, and a sentence for every file that is none. Costs one listing where nothing changed."""
        found: list[ThemeSpec] = []
        problems: list[str] = []
        for path in self._changed():
            try:
                found.append(read_theme(path))
            except ThemeError as error:
                problems.append(str(error))
        return found, problems

    def _changed(self) -> list[Path]:
        if self._folder is None:
            return []
        try:
            with os.scandir(self._folder) as entries:
                stamps = {each.path: _stamp(each.stat()) for each in entries if each.name.endswith(".toml")}
        except OSError:  # no such folder, or a file that is being replaced: the next look will tell
            return []
        changed = [path for path, stamp in stamps.items() if self._seen.get(path) != stamp]
        self._seen = stamps
        return [Path(path) for path in sorted(changed)]


def _stamp(stat: os.stat_result) -> Stamp:
    return stat.st_mtime_ns, stat.st_size
