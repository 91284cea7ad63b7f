"""What every figure works with: the loaded target, its head, and the size of the trees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eagle_chat.tree_sizes import TreeSize
from engine import Calibration, Drafter, Eagle2

if TYPE_CHECKING:
    from eagle_chat.session import ChatSession
    from engine.drafters.draft_head import DraftHead

WARM_TOKENS = 6


@dataclass(frozen=True)
class Lab:
    """The head is one for all drafters: they take turns, and each begins with an empty text."""

    session: ChatSession
    head: DraftHead

    @property
    def size(self) -> TreeSize:
        """Of the session's trees."""
        info = self.session.info
        return TreeSize(info.nodes, info.depth, info.beam)

    def eagle2(self, size: TreeSize, head: DraftHead | None = None) -> Eagle2:
        """EAGLE-2 as the chat has it, with trees of that size."""
        return Eagle2(head or self.head, size.nodes, size.depth, size.beam, Calibration(size.depth))

    def warm_up(self, drafter: Drafter) -> None:
        """Run a few rounds, so that no clock pays for kernels that are built lazily."""
        session = self.session.with_drafter(self.session.info.method, drafter)
        prompt = session.prompts.encode([{"role": "user", "content": "Hello"}])
        settings = replace(session.settings, max_new_tokens=WARM_TOKENS)
        for _ in session.engine.generate(prompt, settings, session.info.method):
            pass
