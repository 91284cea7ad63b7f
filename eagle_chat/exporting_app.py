"""What our applications export by a key: the screen, the tree, what was written. Files go where one works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import platformdirs
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from eagle_chat.documents import Turn, html, markdown
from eagle_chat.errors import EagleChatError
from eagle_chat.export import encoded
from eagle_chat.pictures import Colours, colours, png, screen_svg, tree_rows, tree_svg
from eagle_chat.themed_app import ThemedApp
from eagle_chat.widgets.draft_tree import DraftTreeView

NARROWEST = 60  # cells of the picture of a tree


class ExportingApp(ThemedApp):
    """An application whose pictures and texts can be kept."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "export_screen", "save a picture of the screen", id="export.screen", show=False,
                tooltip="SVG, and PNG where that can be made"),
        Binding("S", "export_tree", "save a picture of the tree alone", id="export.tree", show=False),
        Binding("x", "export_text", "save the text as Markdown, and as a page with all trees",
                id="export.text", show=False,
                tooltip="in a chat also the last reply as a trace, for `eagle-chat replay`"),
    ]  # fmt: skip

    def written(self) -> tuple[str, Sequence[Turn]]:
        """The model, and what was asked and replied so far."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """One sentence for the user."""
        self.notify(text, markup=False)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Ours in place of Textual's screenshot, whose font comes from elsewhere."""
        yield SystemCommand("Export a picture of the screen", "SVG and PNG", self.action_export_screen)
        yield SystemCommand("Export a picture of the tree", "Alone, as SVG and PNG", self.action_export_tree)
        yield SystemCommand("Export the text", "Markdown, and a page with all trees", self.action_export_text)
        yield from (each for each in super().get_system_commands(screen) if each.title != "Screenshot")

    def action_export_screen(self) -> None:
        """The screen as it is."""
        self._save_picture("screen", screen_svg(self.export_screenshot(title=self.TITLE or "")))

    def action_export_tree(self) -> None:
        """The tree that has the keys, or the first one there is; nothing is folded."""
        svg = self.tree_picture()
        if svg is None:
            self.say("There is no tree to save here.")
        else:
            self._save_picture("tree", svg)

    def tree_picture(self) -> str | None:
        """The tree as SVG; None where none is shown."""
        shown = [tree for tree in self.screen.query(DraftTreeView) if tree.record is not None]
        tree = next((tree for tree in shown if tree.has_focus), shown[0] if shown else None)
        if tree is None or tree.record is None:
            return None
        rows = tree_rows(tree.record, max(NARROWEST, tree.size.width), tree.shown_view, tree.node)
        return tree_svg(rows, self._colours(), f"round {tree.record.index}")

    def action_export_text(self) -> None:
        """The conversation, or what is replayed."""
        if not self.written()[1]:
            self.say("There is no reply to save yet.")
            return
        self.keep("text", self.documents())

    def documents(self) -> dict[str, Callable[[], bytes]]:
        """What was written, by the endings of the files that can hold it."""
        model, turns = self.written()
        return {
            ".md": lambda: encoded(markdown(turns, model)),
            ".html": lambda: encoded(html(turns, model, self._colours())),
        }

    def _colours(self) -> Colours:
        """Those of the theme where it is ours."""
        try:
            return colours(self.theme)
        except EagleChatError:
            return colours("eagle-dark" if self.current_theme.dark else "eagle-light")

    def _save_picture(self, what: str, svg: str) -> None:
        self.keep(what, {".svg": lambda: encoded(svg), ".png": lambda: png(svg)})

    def keep(self, what: str, contents: dict[str, Callable[[], bytes]]) -> None:
        """Write what can be made, by the endings of the files; say where it is and what is missing."""
        try:
            path = _free_name(what, contents)
        except OSError as error:
            self.say(f"Nothing was saved ({error.strerror}).")
            return
        saved, missing = [], []
        for suffix, make in contents.items():
            try:
                path.with_name(f"{path.name}{suffix}").write_bytes(make())
                saved.append(suffix)
            except EagleChatError as error:
                missing.append(str(error))
            except OSError as error:
                missing.append(f"{suffix} cannot be written ({error.strerror})")
        where = f"Saved {path.name}{', '.join(saved)} in {path.parent}." if saved else "Nothing was saved:"
        self.say(" ".join([where, *missing]))


def _free_name(what: str, suffixes: Iterable[str]) -> Path:
    """A path without suffix that nothing has yet: in the working folder, or in ours where that is closed."""
    stem = f"eagle-chat-{what}-{datetime.now():%Y%m%d-%H%M%S}"
    first, *others = suffixes
    folders = (Path.cwd(), platformdirs.user_data_path("eagle-chat") / "exports")
    for folder in folders:
        for name in (stem, *(f"{stem}-{number}" for number in range(2, 100))):
            if any((folder / f"{name}{suffix}").exists() for suffix in others):
                continue
            try:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{name}{first}").open("xb").close()
            except FileExistsError:
                continue
            except OSError:
                if folder is folders[-1]:
                    raise
                break
            return folder / name
    raise FileExistsError(17, "too many files of this second")
