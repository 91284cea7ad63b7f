"""`eagle-chat cache`: what models take on disk, and how to get it back. No torch."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from eagle_chat import smollm2
from eagle_chat.asking import agreed
from eagle_chat.catalogue import catalogue, entry_for, trained_for
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.fingerprint import cache_folder
from eagle_chat.gguf_models import conversions
from eagle_chat.hub_cache import cached, delete, hub_folder, kept, size_of
from eagle_chat.sizes import in_words
from eagle_chat.streams import check_output, write, write_json

commands = typer.Typer(invoke_without_command=True, help="What models take on disk: list, delete.")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True, slots=True)
class Item:
    """Something that can be deleted."""

    name: str  # a hub id, the default model's alias, or a GGUF file's
    folder: Path
    size: int
    what: str


@commands.callback()
def show(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Every model in the hub's cache and in ours, the largest first; `cache delete NAME` removes one."""
    if ctx.invoked_subcommand is not None:
        return
    check_output()
    items = _items()
    if as_json:
        listed = [{"name": one.name, "bytes": one.size, "what": one.what} for one in items]
        write_json({"hub": str(hub_folder()), "own": str(cache_folder()), "models": listed})
        return
    width = max((len(one.name) for one in items), default=0)
    write("".join(f"{one.name:{width}}  {in_words(one.size):>8}  {one.what}\n" for one in items))
    total = in_words(sum(one.size for one in items)) if items else "nothing"
    print(f"{total} in {hub_folder()} and {cache_folder()}", file=sys.stderr)


@commands.command("delete")
def delete_item(
    name: Annotated[str, typer.Argument(help="A short name, with its heads, a hub id or a GGUF file.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a model's files. They can be fetched or made again; other programs share the hub's cache."""
    doomed = _named(name, _items())
    if not doomed:
        raise UsageError(f"nothing of {name} is in the caches: `eagle-chat cache` lists what is")
    for one in doomed:
        print(f"{one.name}  {in_words(one.size)}  {one.folder}", file=sys.stderr)
    total = in_words(sum(one.size for one in doomed))
    if not yes and not agreed(f"Delete {total}?"):
        raise EagleChatError("nothing was deleted")
    for one in doomed:
        delete(one.folder)
    print(f"eagle-chat: deleted {total}", file=sys.stderr)


def _items() -> list[Item]:
    items = [Item(one.repo, one.folder, one.size, _what(one.repo)) for one in kept()]
    own = cache_folder() / smollm2.ALIAS
    if own.is_dir():
        items.append(Item(smollm2.ALIAS, own, size_of(own), "the default model"))
    for folder, source in conversions():
        what = "not whole" if source is None else "converted from GGUF"
        items.append(Item(source or folder.name, folder, size_of(folder), what))
    return sorted(items, key=lambda one: -one.size)


def _what(repo: str) -> str:
    """Which of ours it is, and whether it is whole."""
    owner, target = trained_for(repo), entry_for(repo)
    ours = f"head of {owner.alias}" if owner else target.alias if target else ""
    return ", ".join(filter(None, (ours, "" if cached(repo) else "not whole")))


def _named(name: str, items: list[Item]) -> list[Item]:
    """Those of an alias with its heads, or the one of that name."""
    known = catalogue().get(name)
    wanted = {name} if known is None else {name, known.target, *known.heads.values()}
    return [one for one in items if one.name in wanted]
