"""Other keys for our actions: which actions there are, and what a user's `[keys]` make of them."""

from __future__ import annotations

import pkgutil
import unicodedata
from collections.abc import Iterator, Mapping
from importlib import import_module
from string import punctuation

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import KEY_NAME_REPLACEMENTS, Keys

from eagle_chat.configuration import nearest
from eagle_chat.errors import UsageError

PLACES = ("eagle_chat.screens", "eagle_chat.widgets")
MODIFIERS = {"ctrl", "shift", "alt", "super", "meta", "hyper"}
SIGNS = {unicodedata.name(sign).lower().replace("-", "_").replace(" ", "_") for sign in punctuation}
NAMED = {key.value for key in Keys} | {*KEY_NAME_REPLACEMENTS.values()} | SIGNS

Owned = dict[str, list[Binding]]  # bindings of a class, by the id of what they do


def our_bindings() -> list[Owned]:
    """The bindings of every class of ours that has some."""
    for place in PLACES:
        for module in pkgutil.iter_modules(import_module(place).__path__):
            import_module(f"{place}.{module.name}")
    for name in ("eagle_chat.app", "eagle_chat.replay_app"):
        import_module(name)
    return [owned for each in _classes(DOMNode) if (owned := _own(each))]


def keymap(keys: Mapping[str, str], where: str) -> dict[str, str]:
    """What Textual is given for the user's `keys`. Raises UsageError for unknown actions and keys."""
    if not keys:
        return {}
    owners = our_bindings()
    known = {action for owned in owners for action in owned}
    for action, names in keys.items():
        if action not in known:
            raise UsageError(f"{where}: there is no action '{action}' for a key; {nearest(action, known)}")
        for name in names.split(","):
            if not is_key(name.strip()):
                raise UsageError(
                    f"{where}: '{name.strip()}', for '{action}', is no key; write f6, ctrl+r or a character"
                )
    tidy = {action: ",".join(name.strip() for name in names.split(",")) for action, names in keys.items()}
    for owned in owners:
        tidy |= _kept(owned, tidy, where)
    return tidy


def is_key(name: str) -> bool:
    """Whether a terminal could send it: `f6`, `ctrl+r`, `?`, `question_mark`."""
    *modifiers, last = name.split("+") if name != "+" else ["+"]
    if not set(modifiers) <= MODIFIERS:
        return False
    if len(last) == 1 or last in NAMED or name in NAMED:
        return True
    try:
        unicodedata.lookup(last.replace("_", " ").upper())
    except KeyError:
        return False
    return True


def _kept(owned: Owned, keys: Mapping[str, str], where: str) -> dict[str, str]:
    """The keys of actions that share one with a remapped action: Textual would take theirs away as well."""
    moved = {key for action in owned.keys() & keys.keys() for key in _keys(owned[action])}
    taken = {key: action for action in owned.keys() & keys.keys() for key in keys[action].split(",")}
    kept: dict[str, str] = {}
    for action in owned.keys() - keys.keys():
        names = _keys(owned[action])
        for name in names:
            if name in taken and name not in moved:
                raise UsageError(
                    f"{where}: '{name}', for '{taken[name]}', is the key of '{action}'; give that one another"
                )
        if moved.intersection(names):
            kept[action] = ",".join(names)
    return kept


def _keys(bindings: list[Binding]) -> list[str]:
    return [key for binding in bindings for key in binding.key.split(",")]


def _own(each: type[DOMNode]) -> Owned:
    owned: Owned = {}
    if each.__module__.startswith("eagle_chat."):
        for binding in each.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id:
                owned.setdefault(binding.id, []).append(binding)
    return owned


def _classes(root: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for each in root.__subclasses__():
        yield each
        yield from _classes(each)
