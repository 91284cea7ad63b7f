"""A saved conversation as Markdown to read, JSON to process, or messages to train a head on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from eagle_chat.conversations import SavedConversation, SavedTurn, when
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.summary import one_line

CUT_OFF = "cut off: eagle-chat ended before this reply did"


def numbers(turn: SavedTurn) -> str:
    """One line about a reply, as it stood under it."""
    if turn.end and "new_tokens" in turn.end:
        return one_line(turn.end)
    known = f"{turn.method} · seed {turn.seed}" if turn.method else ""
    return " · ".join(filter(None, [CUT_OFF if turn.cut_off else turn.problem, known]))


def as_markdown(conversation: SavedConversation) -> str:
    """To be read by people."""
    parts = [f"# {conversation.title}", f"{conversation.model} · {when(conversation.created)}"]
    if conversation.system:
        parts += ["## System", conversation.system]
    for turn in conversation.turns:
        parts += ["## You", turn.prompt, f"## {turn.session.get('model', 'Model')}", turn.reply.rstrip()]
        parts += [f"*{line}*" if (line := numbers(turn)) else ""]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(conversation: SavedConversation) -> str:
    """All that is kept."""
    whole = asdict(conversation)
    del whole["size"]
    return json.dumps({"title": conversation.title, **whole}, ensure_ascii=False, indent=1) + "\n"


def as_messages(conversation: SavedConversation) -> str:
    """One line for `eagle-chat train --data`."""
    return json.dumps({"messages": conversation.messages()}, ensure_ascii=False) + "\n"


FORMATS = {".md": as_markdown, ".json": as_json, ".jsonl": as_messages}


def export(conversation: SavedConversation, file: Path) -> None:
    """Write `file` in the format that its name ends with. Raises EagleChatError; nothing is overwritten."""
    form = FORMATS.get(file.suffix.lower())
    if form is None:
        raise UsageError(f"{file} has none of the endings {', '.join(FORMATS)}: they name the format")
    try:
        with file.open("x", encoding="utf-8", errors="replace") as out:
            out.write(form(conversation))
    except FileExistsError:
        raise UsageError(f"{file} is there already: name another file") from None
    except OSError as error:
        raise EagleChatError(f"{file} cannot be written ({error.strerror}): name another file") from None


def free_name(conversation: SavedConversation, folder: Path) -> Path:
    """A Markdown file that is not there yet."""
    stem = f"eagle-chat-{conversation.id}"
    names = (f"{stem}{f'-{number}' if number > 1 else ''}.md" for number in range(1, 10_000))
    return next((file for name in names if not (file := folder / name).exists()), folder / f"{stem}.md")
