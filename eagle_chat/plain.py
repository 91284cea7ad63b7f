"""`eagle-chat --plain`: the chat line by line on any terminal, and through pipes.

Nothing moves the cursor, draws a box or needs a colour, so that a screen reader can follow. Replies and trees
go to standard output; the prompt and the numbers to standard error.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, UsageError
from eagle_chat.events import (
    Arrived,
    Failed,
    Finished,
    Loading,
    Note,
    Prefill,
    RoundDone,
    ServerSays,
    Started,
)
from eagle_chat.layout.outline import outline
from eagle_chat.options import Options, is_utf8
from eagle_chat.reply import Reply
from eagle_chat.streams import check_output, interruptible, write
from eagle_chat.terminal import is_terminal, log_path, logging_to
from eagle_chat.visible import visible
from eagle_chat.worker import Session, sentence_about

if TYPE_CHECKING:
    from collections.abc import Iterator

PROMPT = "you> "
STOPPING = "\nStopping after this round; Ctrl+C again leaves at once.\n"
SPEAKER = "eagle> "
HELP = {
    "/tree": "the draft tree of the last round, as an outline; /tree 12 of round 12",
    "/new": "a new conversation",
    "/help": "this list",
    "/quit": "leave, as the end of the input does",
}


def chat_plainly(options: Options, ascii_only: bool) -> int:
    """Load the model and chat until somebody leaves; the exit code."""
    check_output()
    from eagle_chat.sessions import open_session

    session = open_session(options, _stages())
    with open(log_path(), "a", encoding="utf-8", buffering=1) as log, logging_to(log):
        return PlainChat(session, ascii_only).run()


class PlainChat:
    """Reads a line, answers it, and says what it took."""

    def __init__(self, session: Session, ascii_only: bool = False) -> None:
        self.session = session
        self.reply: Reply | None = None
        self._ascii_only = ascii_only

    def run(self) -> int:
        """Until /quit, the end of the input or Ctrl+C twice."""
        for note in self.session.info.notes:
            _narrate(note)
        info = self.session.info
        _narrate(f"{info.model}, {info.method}. /help lists what can be said besides prompts.")
        try:
            return self._serve()
        except BrokenPipeError:  # whoever read us has enough
            return EXIT_FAILURE
        except KeyboardInterrupt:
            _narrate("")
            return EXIT_INTERRUPTED

    def _serve(self) -> int:
        warned = False  # that one more Ctrl+C leaves
        while True:
            try:
                line = _read_line()
                warned = False
            except KeyboardInterrupt:
                if warned:
                    raise
                warned = True
                _narrate("\nPress Ctrl+C again to leave.")
                continue
            if line is None or line.strip() == "/quit":
                return EXIT_DONE
            try:
                self._take(line.strip())
            except UsageError as problem:
                _narrate(str(problem))

    def _take(self, line: str) -> None:
        command, _, rest = line.partition(" ")
        if not is_utf8(line):
            raise UsageError("that is not valid UTF-8: check the terminal's encoding")
        if not line.startswith("/"):
            if line:
                self._answer(line)
        elif command == "/tree":
            self._show_tree(rest.strip())
        elif command == "/new":
            self.session.new_chat()
            self.reply = None
            _narrate("A new conversation.")
        elif command == "/help":
            for name, meaning in HELP.items():
                _narrate(f"{name}: {meaning}")
        else:
            raise UsageError(f"There is no command {command}; there are {', '.join(HELP)}.")

    def _answer(self, prompt: str) -> None:
        """Stream the reply; Ctrl+C ends it after the round it is in, twice leaves."""
        stop = threading.Event()
        problem = None
        try:
            with interruptible(stop, says=STOPPING):
                _narrate(SPEAKER, end="")
                for text in self._texts(prompt, stop):
                    write(visible(text))
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except Exception as error:
            problem = sentence_about(error, "The reply failed")
        write("\n")
        if problem is not None:
            _narrate(problem)
        elif self.reply is not None:
            _narrate(self._numbers(self.reply))

    def _texts(self, prompt: str, stop: threading.Event) -> Iterator[str]:
        for event in self.session.ask(prompt, seed=None, stop=stop):
            match event:
                case Started():
                    self.reply = Reply(event)
                case Prefill() | ServerSays() | Finished() if self.reply is not None:
                    self.reply.add(event)
                case RoundDone() | Arrived() if self.reply is not None:
                    self.reply.add(event)
                    yield event.text
                case Failed(message) | Note(message):
                    _narrate(message)

    def _numbers(self, reply: Reply) -> str:
        """One line, without signs that a voice would spell out."""
        shares = " ".join(f"{100 * share:.0f} %" for share in reply.statistics.accepted_by_depth)
        parts = ["stopped"] if reply.stopped else []
        parts += [reply.footer().replace(" · ", ", ")]
        parts += [f"accepted by depth {shares}"] if shares else []
        line = ", ".join(parts)
        return line.replace("τ", "tau") if self._ascii_only else line

    def _show_tree(self, number: str) -> None:
        rounds = self.reply.rounds if self.reply is not None else []
        if self.session.info.server is not None:
            raise UsageError("A server does not show its draft trees.")
        if not rounds:
            raise UsageError("There is no round to show yet: ask something first.")
        last = len(rounds) - 1
        if number and not (number.isdecimal() and int(number) <= last):
            raise UsageError(f"There is no round {number}: this reply has 0 to {last}.")
        record = rounds[int(number) if number else last]
        write("\n".join(outline(record, self._ascii_only)) + "\n")


def _read_line() -> str | None:
    """What is typed or piped in; None at the end."""
    if is_terminal(sys.stdin) and is_terminal(sys.stdout):
        try:
            return input(PROMPT)
        except EOFError:
            _narrate("")
            return None
    _narrate(PROMPT, end="")
    try:
        return sys.stdin.readline() or None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"standard input is not valid UTF-8 (byte {error.start}): convert it first"
        ) from None


def _stages() -> Callable[[Loading], None]:
    """Says each stage of loading once."""
    told: set[str] = set()

    def tell(event: Loading) -> None:
        if event.stage not in told:
            told.add(event.stage)
            _narrate(f"{event.stage}...")

    return tell


def _narrate(text: str, end: str = "\n") -> None:
    """To standard error, at once."""
    print(visible(text), end=end, file=sys.stderr, flush=True)
