"""Which GPU each layer of a target goes to: the fewest that hold it with a conversation. A plan, of numbers.

Embedding, LM head and draft head are at home, on the first of them, and so is all that is not in a layer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from eagle_chat.memory_need import GROWING, Model, Need, Placing


@dataclass(frozen=True, slots=True)
class Parts:
    """What a target takes, in bytes; its layers are alike."""

    layers: int
    layer: int  # weights of one
    home: int  # weights beside the layers
    token: int  # of one token in the cache of one layer
    home_token: int  # of one token beside these
    work: int  # activations and libraries, on every device


@dataclass(frozen=True, slots=True)
class Placement:
    """Numbers of devices."""

    home: int
    layers: tuple[int, ...]  # by layer
    room: int  # tokens of conversation

    @property
    def is_split(self) -> bool:
        """Over several devices."""
        return {self.home} != set(self.layers)


def parts_of(model: Model, placing: Placing, needed: Need) -> Parts:
    """They add up to `needed`."""
    layers = model.shape.layers
    ends = min(needed.weights, model.shape.embedding * placing.itemsize)
    layer = (needed.weights - ends) // layers
    token = min(needed.token, int(GROWING * model.shape.cached * placing.itemsize)) // layers
    return Parts(
        layers,
        layer,
        home=needed.weights + needed.copies + needed.head - layers * layer,
        token=token,
        home_token=needed.token - layers * token,
        work=needed.work,
    )


def place(parts: Parts, free: Sequence[int], wanted: Sequence[int]) -> Placement | None:
    """The first single device with room for the tokens wanted, else the fewest that have it together.

    `wanted` are numbers of tokens, the next of which counts where there is no room for the one before. None
    where there is not even room for the last.
    """
    by_room = sorted(range(len(free)), key=lambda number: -free[number])
    groups = [[number] for number in range(len(free))]
    groups += [by_room[:size] for size in range(2, len(free) + 1)]
    for tokens in wanted:
        for group in groups:
            found = _spread(parts, group, free)
            if found is not None and found.room >= tokens:
                return found
    return None


def place_anyway(parts: Parts, free: Sequence[int]) -> Placement:
    """As if every device had more, by the least that lets it fit."""
    more = list(free)
    while (found := place(parts, more, (0,))) is None:
        more = [size + size // 10 + 1 for size in more]
    return found


def _spread(parts: Parts, group: Sequence[int], free: Sequence[int]) -> Placement | None:
    """Layers in order, so that the longest conversation has room; None where not even the weights have."""
    rooms = [free[number] - parts.work for number in group]
    longest = max(0, sum(rooms)) // max(1, parts.layers * parts.token + parts.home_token)
    tokens = bisect_left(range(longest + 1), True, key=lambda n: sum(_held(parts, rooms, n)) < parts.layers)
    if tokens == 0:
        return None
    held = _held(parts, rooms, tokens - 1)
    order = [number for number, count in zip(group, held, strict=True) for _ in range(count)]
    return Placement(group[0], tuple(order[: parts.layers]), tokens - 1)


def _held(parts: Parts, rooms: Sequence[int], tokens: int) -> list[int]:
    """How many layers each device has room for, with so many tokens."""
    beside = [parts.home + tokens * parts.home_token, *[0] * (len(rooms) - 1)]
    if rooms[0] < beside[0]:
        return [0] * len(rooms)
    each = max(1, parts.layer + tokens * parts.token)
    return [max(0, room - taken) // each for room, taken in zip(rooms, beside, strict=True)]
