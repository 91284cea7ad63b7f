"""Textual's command palette, without two ways in which fast fingers end the whole application."""

from __future__ import annotations

from typing import Any

from textual.command import CommandList, CommandPalette
from textual.worker import Worker


class Palette(CommandPalette):
    """Both were found by random keys; Textual 8.2 raises in them."""

    def run_worker(self, *work: Any, **how: Any) -> Worker[Any]:
        """Closed while it still gathers commands, it looks for a list that has gone."""
        return super().run_worker(*work, **how | {"exit_on_error": False})

    def _action_command_list(self, action: str) -> None:
        """A page of a list that has no room yet, or no rows, cannot be turned."""
        found = self.query(CommandList)
        if found and found.first().option_count and found.first().scrollable_content_region.height:
            super()._action_command_list(action)
