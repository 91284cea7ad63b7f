"""Heads and targets that people mix up: told by their names, before anything is downloaded."""

from __future__ import annotations

from eagle_chat.catalogue import Entry, catalogue, entry_for, trained_for
from eagle_chat.errors import UsageError
from eagle_chat.methods import CARDS, Needs
from eagle_chat.options import Options


def check_pairing(options: Options) -> list[str]:
    """Notes about a published head that was trained for another target.

    Raises UsageError where it cannot fit: its widths or its vocabulary are not the target's.
    """
    small = options.method is not None and CARDS[options.method].needs is Needs.DRAFT_MODEL
    head = None if small else options.head
    target, owner = entry_for(options.model), None if head is None else _owner(head)
    if target is None or owner is None or owner is target:
        return []
    if owner.shape.hidden != target.shape.hidden:
        raise UsageError(
            f"{head} is the head of {owner.alias}, whose hidden states are {owner.shape.hidden} wide, and "
            f"{target.alias}'s are {target.shape.hidden}: {_offer(target)}"
        )
    if owner.shape.vocabulary != target.shape.vocabulary:
        raise UsageError(
            f"{head} is the head of {owner.alias}, which has {owner.shape.vocabulary:,} tokens where "
            f"{target.alias} has {target.shape.vocabulary:,}: {_offer(target)}"
        )
    return [
        f"{head} was trained for {owner.alias}, not for {target.alias}: replies stay the same, but it will "
        f"guess worse; {_offer(target)}."
    ]


def _owner(head: str) -> Entry | None:
    """The entry of the target that a head was trained for, given by its hub id or by that target's alias."""
    return trained_for(head) or catalogue().get(head)


def _offer(target: Entry) -> str:
    """Which head to take instead."""
    names = dict.fromkeys(head if "/" in head else target.alias for head in target.heads.values())
    return f"for {target.alias} there is {' or '.join(names)}"
