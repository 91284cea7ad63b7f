"""The layouts that published heads were trained on, for targets whose tokenizer has no chat template."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from eagle_chat.catalogue import Entry, bare_name, catalogue, entry_for, instruct_of


@dataclass(frozen=True, slots=True)
class Layout:
    """A template of ours."""

    template: str
    notes: tuple[str, ...] = ()  # what to tell where it is used


def layout_for(model: str, head: str | None = None) -> Layout | None:
    """Of an alias or a hub id that has one, or of a copy of its target or of its head, told by their names.

    A base model takes none: with the head of the model that was made of it, it would still not chat.
    """
    known = entry_for(model)
    if known is not None:
        return None if known.chat_template is None else Layout(_read(known.chat_template))
    if instruct_of(model) is not None:
        return None
    for one in catalogue().values():
        if one.chat_template is not None and _is_copy(one, model, head):
            note = f"The tokenizer of {model} has no chat template: prompts are laid out as for {one.alias}."
            return Layout(_read(one.chat_template), (note,))
    return None


def _is_copy(one: Entry, model: str, head: str | None) -> bool:
    """Folders keep the names that they have on the hub; GGUF files go on with their kind."""
    if head is not None and (head == one.alias or bare_name(head) in map(bare_name, one.heads.values())):
        return True
    name, target = bare_name(model), bare_name(one.target)
    return name == target or name.startswith((f"{target}.", f"{target}-"))


def _read(name: str) -> str:
    file = files("eagle_chat").joinpath("templates", f"{name}.jinja")
    return file.read_text(encoding="utf-8").rstrip("\n")
