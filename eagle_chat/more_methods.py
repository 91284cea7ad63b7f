"""Methods whose heads ship with the model, loaded when one is chosen: a start pays for none of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from eagle_chat.catalogue import entry_for
from eagle_chat.errors import UsageError
from eagle_chat.methods import CARDS, HEADS, Method, Needs
from eagle_chat.options import Options
from eagle_chat.weights import find_head

if TYPE_CHECKING:
    from engine import Engine


class MoreMethods:
    """What a session of `options` could have beside what it has."""

    def __init__(self, options: Options) -> None:
        known = entry_for(options.model)
        packaged = {} if known is None else {k: name for k, name in known.heads.items() if "/" not in name}
        self._options = replace(options, head=None, nodes=None, depth=None, beam=None)
        self._heads = {
            method.value: packaged[card.needs.value]
            for method, card in CARDS.items()
            if card.needs.value in packaged and (card.needs in HEADS or card.needs is Needs.DRAFT_MODEL)
        }
        self._loaded: set[str] = set()

    @property
    def names(self) -> tuple[str, ...]:
        """Methods that can be loaded, or were."""
        return tuple(self._heads)

    def head_of(self, method: str) -> str | None:
        """What a method that was loaded here drafts with."""
        return self._heads[method] if method in self._loaded else None

    def load(self, method: str, engine: Engine) -> None:
        """Put a method beside those of the engine. Raises EagleChatError or UsageError."""
        from eagle_chat.loading import load_more
        from engine import SettingsError

        kind, model = CARDS[Method(method)].needs.value, self._options.model
        head = find_head(None, model, kind, lambda _: None)
        drafters = load_more(self._options, Method(method), head, engine, lambda _: None)
        new = {name: drafter for name, drafter in drafters.items() if name not in engine.drafters}
        try:
            engine.add(new)
        except SettingsError:
            raise UsageError(
                f"{method} reads other hidden states than the head that is loaded: start with "
                f"--method {method}, without --head"
            ) from None
        self._loaded |= new.keys()
