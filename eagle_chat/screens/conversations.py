"""Saved conversations, newest first: searched while one types, resumed, exported, deleted."""

import asyncio
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from eagle_chat.conversation_export import export, free_name
from eagle_chat.conversations import Library, SavedConversation, when
from eagle_chat.errors import EagleChatError
from eagle_chat.screens.confirm import ConfirmScreen
from eagle_chat.screens.steady import SteadyScreen
from eagle_chat.visible import visible


class ConversationsScreen(SteadyScreen[SavedConversation | None]):
    """Its result is the conversation to go on with."""

    AUTO_FOCUS = "#conversations"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "resume", "resume", id="conversations.resume", priority=True),
        Binding("slash", "search", "search", id="conversations.search", key_display="/"),
        Binding("d,delete", "delete", "delete", id="conversations.delete", key_display="d"),
        Binding("x", "export", "export", id="conversations.export"),
        Binding("escape", "close", "close", id="conversations.close", key_display="esc"),
    ]

    def __init__(self, library: Library, current: SavedConversation | None, words: str = "") -> None:
        super().__init__()
        self._library = library
        self._current = current
        self._all: list[SavedConversation] = []
        self._shown: list[SavedConversation] = []
        self._search = Input(words, placeholder="search", id="conversations-search", compact=True)
        self._list = OptionList(id="conversations", markup=False)
        self._says = Static("reading…", id="conversations-says", markup=False)

    def compose(self) -> ComposeResult:
        """Search, list, one line that says what happened."""
        yield self._search
        yield self._list
        yield self._says
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Read them beside the screen: there may be thousands."""
        self.run_worker(self._load())

    def on_input_changed(self) -> None:
        """Something else is looked for."""
        self._show()

    def on_option_list_option_selected(self) -> None:
        """Clicked."""
        self.action_resume()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Letters belong to the search while one writes it."""
        return action not in ("delete", "export", "search") or self.focused is not self._search

    def on_descendant_focus(self) -> None:
        """Other keys."""
        self.refresh_bindings()

    def key_down(self) -> None:
        """Out of the search, into what it found."""
        if self.focused is self._search:
            self._list.focus()

    def action_search(self) -> None:
        """To the search."""
        self._search.focus()

    def action_close(self) -> None:
        """Out of the search; then out of here."""
        if self.focused is self._search:
            self._search.clear()
            self._list.focus()
        else:
            self.dismiss(None)

    def action_resume(self) -> None:
        """Go on with the one that is chosen."""
        if chosen := self._chosen():
            self.dismiss(chosen)

    def action_export(self) -> None:
        """As Markdown, to the current folder."""
        if chosen := self._chosen():
            file = free_name(chosen, Path.cwd())
            try:
                export(chosen, file)
            except EagleChatError as error:
                self._say(str(error))
            else:
                self._say(f"Exported to {file.name} in {file.parent}.")

    def action_delete(self) -> None:
        """For good, once that was confirmed."""
        chosen = self._chosen()
        if chosen is None:
            return
        if self._current is not None and chosen.id == self._current.id:
            self._say("That is the conversation on screen: leave it with ctrl+n in the chat, then delete it.")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._delete(chosen)

        self.app.push_screen(ConfirmScreen(f"Delete “{visible(chosen.title)}” for good?", "delete"), answered)

    async def _load(self) -> None:
        self._all, problems = await asyncio.to_thread(self._library.all)
        self._show(" ".join(problems))

    def _delete(self, conversation: SavedConversation) -> None:
        try:
            self._library.delete(conversation.id)
        except EagleChatError as error:
            self._say(str(error))
            return
        self._all.remove(conversation)
        self._show(f"Deleted “{conversation.title}”.")

    def _show(self, says: str = "") -> None:
        """What fits the search; the cursor stays where it is."""
        wanted = self._search.value
        at = self._list.highlighted or 0
        self._shown = [each for each in self._all if each.matches(wanted)]
        self._list.set_options([Option(self._row(each)) for each in self._shown])
        if self._shown:
            self._list.highlighted = min(at, len(self._shown) - 1)
        self._say(says or self._count())

    def _row(self, conversation: SavedConversation) -> Content:
        open_now = self._current is not None and conversation.id == self._current.id
        cut_off = any(turn.cut_off for turn in conversation.turns[-1:]) and not open_now
        turns = len(conversation.turns)
        details = [when(conversation.updated), f"{turns} turn{'' if turns == 1 else 's'}", conversation.model]
        state = " on screen" if open_now else " cut off" if cut_off else ""
        return Content.assemble(
            (visible(conversation.title), "bold"),
            (state, "$text-warning"),
            ("\n" + visible(" · ".join(details)), "$text-muted"),
        )

    def _count(self) -> str:
        if not self._all:
            return "Nothing is saved yet."
        some = f"{len(self._shown)} of " if self._search.value else ""
        return f"{some}{len(self._all)} conversation{'' if len(self._all) == 1 else 's'}"

    def _chosen(self) -> SavedConversation | None:
        at = self._list.highlighted
        return self._shown[at] if at is not None and at < len(self._shown) else None

    def _say(self, text: str) -> None:
        self._says.update(visible(text))
