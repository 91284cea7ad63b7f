"""`eagle-chat chats`: saved conversations without the screen. No torch, no textual."""

from __future__ import annotations

import sys
from collections.abc import Container
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from eagle_chat.asking import agreed
from eagle_chat.conversation_export import as_markdown, export, numbers
from eagle_chat.conversations import LAST, Library, SavedConversation, when
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.streams import check_output, write, write_json
from eagle_chat.visible import visible

chats = typer.Typer(invoke_without_command=True, help="Saved conversations: list, show, export, delete.")


Id = Annotated[str, typer.Argument(metavar="ID", help="Its id, the beginning of that, or `last`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def resume_the_last(args: list[str], commands: Container[str]) -> list[str]:
    """The arguments of the chat, with an id behind `--resume` where there is none."""
    command = next((at for at, arg in enumerate(args) if arg in commands), len(args))
    behind = args.index("--resume") + 1 if "--resume" in args[:command] else None
    if behind is None or (behind < len(args) and not args[behind].startswith("-")):
        return args
    return [*args[:behind], LAST, *args[behind:]]


@chats.callback()
def list_chats(
    ctx: typer.Context,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those with all of these words in them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Saved conversations, newest first; go on with one by `eagle-chat --resume ID`."""
    if ctx.invoked_subcommand is not None:
        return
    check_output()
    library = Library()
    found, problems = library.all()
    for problem in problems:
        print(f"eagle-chat: {visible(problem)}", file=sys.stderr)
    found = [each for each in found if each.matches(search or "")]
    if as_json:
        write_json({"folder": str(library.folder), "conversations": [_entry(each) for each in found]})
    elif found:
        write(_table(found))
    else:
        what = "no conversation has these words" if search else "nothing is saved yet"
        print(f"eagle-chat: {what} ({library.folder})", file=sys.stderr)


@chats.command()
def show(identifier: Id, as_json: AsJson = False) -> None:
    """Print a conversation."""
    check_output()
    conversation = Library().find(identifier)
    if as_json:
        turns = [asdict(turn) for turn in conversation.turns]
        write_json(_entry(conversation) | {"session": conversation.session, "turns": turns})
        return
    write(f"{visible(conversation.title)}\n{visible(_line(conversation))}\n")
    for turn in conversation.turns:
        write(f"\n❯ {visible(turn.prompt)}\n\n{visible(turn.reply).rstrip()}\n\n{visible(numbers(turn))}\n")


@chats.command("export")
def export_chat(
    identifier: Id,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", dir_okay=False,
            help="FILE.md to read, FILE.json with all figures, or FILE.jsonl for `eagle-chat train --data`; "
            "Markdown to standard output without one.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Write a conversation to a file that is not there yet."""
    conversation = Library().find(identifier)
    if to is None:
        check_output()
        write(as_markdown(conversation))
        return
    export(conversation, to)
    print(f"eagle-chat: exported to {to}", file=sys.stderr)


@chats.command()
def delete(
    identifier: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Its id, or the beginning of that.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All conversations.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a conversation for good."""
    if (identifier is None) != everything:
        raise UsageError("say which conversation: give its id, or --all, and not both")
    library = Library()
    if identifier is not None:
        doomed = [library.find(identifier)]
        what = f"“{visible(doomed[0].title)}”"
    else:
        doomed, _ = library.all()
        what = f"all conversations ({len(doomed)})"
    if not yes and doomed and not agreed(f"Delete {what} for good?"):
        raise EagleChatError("nothing was deleted")
    for conversation in doomed:
        library.delete(conversation.id)
    print(f"eagle-chat: deleted {len(doomed)}", file=sys.stderr)


def _entry(conversation: SavedConversation) -> dict[str, object]:
    return {
        "id": conversation.id,
        "title": conversation.title,
        "created": conversation.created,
        "updated": conversation.updated,
        "model": conversation.model,
        "turns": len(conversation.turns),
    }


def _line(conversation: SavedConversation) -> str:
    return f"{conversation.id} · {when(conversation.updated)} · {conversation.model}"


def _table(found: list[SavedConversation]) -> str:
    models = [visible(each.model) for each in found]
    width = max(len("model"), *map(len, models))
    head = f"{'id':6}  {'last used':16}  turns  {'model':{width}}  title\n"
    rows = (
        f"{each.id:6}  {when(each.updated):16}  {len(each.turns):5}  {model:{width}}  {visible(each.title)}\n"
        for each, model in zip(found, models, strict=True)
    )
    return head + "".join(rows)
