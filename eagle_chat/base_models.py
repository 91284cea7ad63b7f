"""Models that were not made to chat: told before their weights are downloaded, where the hub knows."""

from __future__ import annotations

from pathlib import Path

from eagle_chat.catalogue import entry_for, instruct_of
from eagle_chat.chat_layouts import layout_for
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.hub_cache import cached
from eagle_chat.weights import HUB_ID


def no_chat_model(name: str) -> UsageError:
    """For a model whose tokenizer has no chat template."""
    return UsageError(
        f"the tokenizer of {name} has no chat template, so it is no chat model: "
        f"choose {instruct_of(name) or 'an instruct model'}"
    )


def check_chats(name: str, head: str | None = None) -> None:
    """Raises UsageError for a hub id that is not here yet, with no chat template there and none of ours."""
    if layout_for(name, head) is not None:
        return
    if Path(name).expanduser().exists() or entry_for(name) is not None or not HUB_ID.fullmatch(name):
        return
    if cached(name) is not None:
        return
    from eagle_chat.hub_plan import has_chat_template

    try:
        chats = has_chat_template(name)
    except EagleChatError:  # the download says it better
        return
    if not chats:
        raise no_chat_model(name)
