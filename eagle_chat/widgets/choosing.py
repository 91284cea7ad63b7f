"""A cursor over the messages of a conversation, for the keys that do something with one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagle_chat.code_blocks import code_blocks

if TYPE_CHECKING:
    from eagle_chat.widgets.messages import Message

CHOSEN = "-chosen"


class MessageCursor:
    """Which message is chosen; it carries the class `-chosen`."""

    def __init__(self) -> None:
        self.message: Message | None = None
        self._block = 0  # the next code block of it to be copied

    def choose(self, message: Message | None) -> None:
        """Choose another message, or none."""
        if self.message is not None:
            self.message.remove_class(CHOSEN)
        self.message, self._block = message, 0
        if message is not None:
            message.add_class(CHOSEN)
            message.scroll_visible(animate=False)

    def move(self, messages: list[Message], by: int) -> None:
        """To the next or the one before; from nowhere to the last."""
        if not messages:
            return
        at = messages.index(self.message) + by if self.message in messages else len(messages) - 1
        self.choose(messages[min(max(at, 0), len(messages) - 1)])

    def next_block(self) -> str | None:
        """One code block of the message after the other."""
        blocks = code_blocks(self.message.source) if self.message is not None else []
        if not blocks:
            return None
        self._block += 1
        return blocks[(self._block - 1) % len(blocks)]
