"""How a conversation was decoded comes back with it, and goes with it when it is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from eagle_chat.choices import PARAMETERS, Choices, method_parameter
from eagle_chat.errors import UsageError

COME_BACK = (
    "method", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "max_new_tokens",
    "system",
)  # fmt: skip
"""What belongs to the text; sizes of trees belong to the machine."""


def saved_choices(
    session: Mapping[str, Any], now: Choices, methods: tuple[str, ...], given: Collection[str] = ()
) -> Choices:
    """`now` with what a saved `session` line had, but for what the command line has `given`.

    What cannot be here stays as it is now: a method without its head, or what was written by hand.
    """
    own = session.get("choices")
    values = {**session, **(own if isinstance(own, dict) else {})}  # older lines have them side by side
    wanted = {}
    for parameter in (method_parameter(methods), *PARAMETERS):
        name = parameter.name
        if name in COME_BACK and name in values and name not in given:
            try:
                value = values[name]
                wanted[name] = parameter.parse(parameter.unset if value is None else str(value))
            except UsageError:
                continue
    return replace(now, **wanted)


def left_behind(now: Choices, came: Choices, before: Choices) -> Choices:
    """`now` without what `came` with a conversation; what was changed since then stays."""
    same = [name for name in COME_BACK if getattr(now, name) == getattr(came, name)]
    return replace(now, **{name: getattr(before, name) for name in same})
