"""Where a draft model is: a causal LM like any other, or layers that share the target's embedding."""

from __future__ import annotations

from collections.abc import Callable

from eagle_chat.catalogue import catalogue
from eagle_chat.events import Loading
from eagle_chat.gguf_models import gguf_behind
from eagle_chat.methods import Needs
from eagle_chat.weights import WeightsLocation, find_head, find_target


def find_draft_model(
    name: str | None, target: str, progress: Callable[[Loading], None]
) -> WeightsLocation | None:
    """The one named (alias, folder, GGUF file, hub id), or the catalogue's for that target; None without."""
    from engine import shares_embedding

    if name is not None and (name in catalogue() or gguf_behind(name) is not None):
        return find_target(name, progress)
    found = find_head(name, target, Needs.DRAFT_MODEL.value, progress)
    if name is None or found is None or shares_embedding(found.folder):
        return found
    return find_target(name, progress)
