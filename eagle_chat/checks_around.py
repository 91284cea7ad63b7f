"""What `eagle-chat doctor` finds out about the terminal, the hub and, if asked, the speed."""

from __future__ import annotations

import locale
import os
import sys
import threading
import time
from collections.abc import Iterator

from rich.console import Console

from eagle_chat.catalogue import entry
from eagle_chat.checks import Check, Status
from eagle_chat.errors import EagleChatError
from eagle_chat.smollm2 import ALIAS
from eagle_chat.terminal import is_terminal

SMALLEST = (80, 24)
RULER = "│●○★◆─▏▉┊"  # what the tree is drawn with; terminals may make some of these twice as wide
PERF_SECONDS = 2.0
PERF_TOKENS = 256


def check_terminal() -> Iterator[Check]:
    """Size, colours, characters and the way to the clipboard."""
    if not is_terminal(sys.stdout):
        yield Check("terminal", Status.PASS, "standard output is no terminal here: not looked at")
        return
    console = Console()
    columns, lines = console.size
    size = f"{columns}x{lines}"
    if os.environ.get("TERM") == "dumb":
        yield Check("terminal", Status.WARN, "dumb", "chat with --plain, or use another terminal")
    elif columns < SMALLEST[0] or lines < SMALLEST[1]:
        yield Check("terminal", Status.WARN, size, "make it at least 80x24")
    else:
        yield Check("terminal", Status.PASS, size)
    yield _colours(console.color_system)
    yield _characters()
    yield _clipboard()


def check_hub(ask: bool) -> Iterator[Check]:
    """The token, as present or absent only; the hub itself if it may be asked."""
    from huggingface_hub import constants, get_token

    if get_token():
        yield Check("hub-token", Status.PASS, "present")
    else:
        step = "for gated models: `hf auth login`, or set HF_TOKEN"
        yield Check("hub-token", Status.PASS, "absent", step)
    if constants.HF_HUB_OFFLINE:
        yield Check("hub", Status.WARN, "HF_HUB_OFFLINE is set", "unset it to fetch models")
    elif not ask:
        yield Check("hub", Status.PASS, "not asked (--check-hub asks)")
    else:
        yield _hub_answer()


def check_speed() -> Check:
    """Tokens per second of the default model, as the chat would run it."""
    from eagle_chat.events import RoundDone
    from eagle_chat.loading import load_session
    from eagle_chat.options import Options

    try:
        options = Options(model=ALIAS, max_new_tokens=PERF_TOKENS)
        session = load_session(options, lambda event: None, watched=False)
        stop, began, tokens = threading.Event(), 0.0, 0
        for event in session.ask("Write a long story about the sea.", seed=0, stop=stop):
            if isinstance(event, RoundDone):
                tokens += len(event.record.new) if began else 0  # from the first token on
                began = began or time.perf_counter()
                if time.perf_counter() - began > PERF_SECONDS:
                    stop.set()
        speed = tokens / (time.perf_counter() - began)
    except EagleChatError as error:
        return Check("speed", Status.FAIL, str(error), "see the checks above")
    where = f"{session.info.device}, {session.info.dtype}, {session.info.method}"
    return Check("speed", Status.PASS, f"{speed:.0f} tokens a second ({ALIAS}, {where})")


def _colours(system: str | None) -> Check:
    if system in ("truecolor", "256", "windows"):
        return Check("colours", Status.PASS, "16 million" if system == "truecolor" else "256")
    few = "16" if system == "standard" else "none"
    return Check(
        "colours", Status.WARN, few, "try --theme eagle-ansi, or set COLORTERM=truecolor if it has them"
    )


def _characters() -> Check:
    encoding = (sys.stdout.encoding or locale.getpreferredencoding()).lower().replace("-", "")
    if encoding != "utf8":
        return Check("unicode", Status.WARN, f"output is {encoding}", "set a UTF-8 locale, or use --ascii")
    ruler = "0123456789"[: len(RULER)]
    step = "if | is not at the same place in both lines, use --ascii"
    return Check("unicode", Status.PASS, f"{RULER}|\n{ruler}|", step)


def _clipboard() -> Check:
    """Texts are copied by an escape sequence that the terminal has to take."""
    if os.environ.get("TERM_PROGRAM") == "Apple_Terminal":
        return Check(
            "clipboard", Status.WARN, "macOS Terminal takes no OSC 52", "use another terminal to copy"
        )
    if "TMUX" in os.environ:
        step = "in tmux, `set -g set-clipboard on` lets it through"
        return Check("clipboard", Status.PASS, "OSC 52, through tmux", step)
    return Check("clipboard", Status.PASS, "OSC 52, where the terminal takes it")


def _hub_answer() -> Check:
    from eagle_chat.hub import answers

    began = time.perf_counter()
    if answers(entry(ALIAS).target):
        return Check("hub", Status.PASS, f"answers in {time.perf_counter() - began:.1f} s")
    return Check("hub", Status.FAIL, "cannot be reached", "check network, proxy and HF_ENDPOINT")
