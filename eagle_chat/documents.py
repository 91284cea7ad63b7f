"""Replies as documents: Markdown with the numbers, and a page of HTML that shows every round's tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby

from eagle_chat.authorship import Written, written_by
from eagle_chat.events import RoundDone
from eagle_chat.layout.tokens import token_text
from eagle_chat.pictures import Colours, inner_svg, tree_rows
from eagle_chat.visible import visible


@dataclass(frozen=True)
class Turn:
    """A prompt and what was replied, from a trace or from the chat on screen."""

    prompt: str
    rounds: Sequence[RoundDone]
    text: str
    figures: str  # one line of numbers


def markdown(turns: Sequence[Turn], model: str) -> str:
    """The conversation. What was asked is quoted, so that nothing in it becomes a heading; replies are as
    the model wrote them.
    """
    parts = [f"# eagle-chat: {_plain(model)}"]
    for turn in turns:
        quoted = "\n".join(f"> {line}".rstrip() for line in visible(turn.prompt).split("\n"))
        parts += [quoted, _closed(visible(turn.text).strip("\n")), f"*{_plain(turn.figures)}*"]
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """A line in which nothing is markup."""
    return "".join(f"\\{char}" if char in r"\`*_[]<>#" else char for char in " ".join(visible(text).split()))


def _closed(text: str) -> str:
    """A reply that was cut inside a block of code must not swallow what comes after it."""
    fence = ""
    for line in text.split("\n"):
        stripped = line.strip()
        mark = stripped[: len(stripped) - len(stripped.lstrip(stripped[:1]))]
        if fence and mark.startswith(fence) and stripped == mark:
            fence = ""
        elif not fence and mark[:3] in ("```", "~~~"):
            fence = mark
    return f"{text}\n{fence}" if fence else text


def html(turns: Sequence[Turn], model: str, palette: Colours, width: int = 120) -> str:
    """A page in one file that loads nothing: replies with who wrote each token, then a tree for every round.

    Without scripts all trees are there, one below the other; with them one at a time.
    """
    template = files("eagle_chat").joinpath("templates", "reply.html").read_text(encoding="utf-8")
    values = {
        "title": escape(f"eagle-chat: {visible(model)}"),
        "background": palette.background,
        "foreground": palette.foreground,
        "accepted": palette.variables["tree-accepted"],
        "bonus": palette.variables["tree-bonus"],
        "quiet": palette.variables["tree-score"],
        "edge": palette.variables["tree-edge"],
        "tree": palette.style_sheet,
        "body": "\n".join(_turn(number, turn, width) for number, turn in enumerate(turns, start=1)),
    }
    return re.sub("«([a-z]+)»", lambda place: values[place[1]], template)


def _turn(number: int, turn: Turn, width: int) -> str:
    rounds = "\n".join(_round(number, done, width) for done in turn.rounds)
    return (
        f'<article><p class="prompt">{escape(visible(turn.prompt))}</p>\n'
        f'<p class="reply">{"".join(_reply(number, turn))}</p>\n'
        f'<p class="figures">{escape(visible(turn.figures))}</p>\n'
        f'<div class="rounds">\n{rounds}\n</div></article>'
    )


def _reply(number: int, turn: Turn) -> Iterator[str]:
    """The text, a link for each round and a mark for each token. Of a saved reply only the text is known."""
    if not turn.rounds:
        yield escape(visible(turn.text))
    for index, written in groupby(written_by(turn.rounds), key=lambda token: token.round):
        marks = "".join(map(_token, written))
        yield f'<a href="#t{number}r{index}">{marks}</a>'


def _token(token: Written) -> str:
    if not token.text:
        return ""
    who, kind = ("the target's own token", "own")
    if token.depth is not None:
        who, kind = (f"drafted at depth {token.depth}", "drafted")
    title = escape(f"round {token.round}: {token_text(token.token)}, {who}")
    return f'<span class="{kind}" title="{title}">{escape(visible(token.text))}</span>'


def _round(number: int, done: RoundDone, width: int) -> str:
    record = done.record
    title = f"round {record.index}: {record.accepted} accepted, {len(record.new)} committed"
    name = f"t{number}r{record.index}"
    return f'<figure id="{name}">{inner_svg(tree_rows(record, width), title)}</figure>'
