"""Heads and targets that people mix up: told by their names, before anything large is downloaded."""

from __future__ import annotations

import json
from pathlib import Path

from eagle_chat.catalogue import Entry, bare_name, catalogue, entry_for, trained_for
from eagle_chat.errors import UsageError
from eagle_chat.methods import CARDS, Needs
from eagle_chat.options import Options
from eagle_chat.weights import HUB_ID, WeightsLocation


def check_pairing(options: Options) -> list[str]:
    """Notes about a published head that was trained for another target.

    Raises UsageError where it cannot fit: its widths or its vocabulary are not the target's.
    """
    small = options.method is not None and CARDS[options.method].needs is Needs.DRAFT_MODEL
    head = None if small else options.head
    target, owner = entry_for(options.model), None if head is None else _owner(head)
    return [] if head is None or target is None or owner is None else _compared(head, owner, target)


def check_base(options: Options, head: WeightsLocation) -> list[str]:
    """The same of a head whose own config names the model it was made for. Raises as `check_pairing`."""
    base = _base_of(head.folder)
    if base is None:
        return []
    owner = next((one for one in catalogue().values() if bare_name(one.target) == bare_name(base)), None)
    target = entry_for(options.model)
    if owner is not None and target is not None:
        return _compared(head.name, owner, target)
    name = options.model if target is None else target.target
    known = all(HUB_ID.fullmatch(one) and not Path(one).is_dir() for one in (base, name))
    if not known or bare_name(base) == bare_name(name):
        return []
    return [
        f"{head.name} was made for {base}, not for {options.model}: replies stay the same, but it may guess "
        "worse."
    ]


def _base_of(folder: Path) -> str | None:
    """The hub id or path in a config of vLLM's speculators; whether it is sound is said when it is loaded."""
    try:
        named = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        for field in ("speculators_config", "verifier", "name_or_path"):
            named = named[field]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return named if isinstance(named, str) else None


def _compared(head: str, owner: Entry, target: Entry) -> list[str]:
    """Of a head that was trained for `owner`."""
    if owner is target:
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
