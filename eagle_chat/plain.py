"""`eagle-chat --plain`: the chat line by line on any terminal, and through pipes.

Nothing moves the cursor, draws a box or needs a colour, so that a screen reader can follow. Replies and trees
go to standard output; the prompt and the numbers to standard error.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, TextIO

from eagle_chat.choices import Choices
from eagle_chat.commands import Command, execute, parse, prompt_text
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, EagleChatError, UsageError
from eagle_chat.events import (
    Arrived,
    Event,
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
from eagle_chat.reply_traces import traces, write_new
from eagle_chat.shared_commands import AGAIN, COMING_AND_GOING, DECODING
from eagle_chat.streams import check_output, interruptible, typed_line, write
from eagle_chat.terminal import is_terminal, log_path, logging_to
from eagle_chat.trace import ending
from eagle_chat.visible import visible
from eagle_chat.word_wrap import WordWrap, wrapped
from eagle_chat.worker import Session, sentence_about

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROMPT = "you> "
STOPPING = "\nStopping after this round; Ctrl+C again leaves at once.\n"
SPEAKER = "eagle> "


def chat_plainly(options: Options, ascii_only: bool) -> int:
    """Load the model and chat until somebody leaves; the exit code."""
    check_output()
    from eagle_chat.sessions import open_session

    session = open_session(options, _stages())
    with open(log_path(), "a", encoding="utf-8", buffering=1) as log, logging_to(log):
        return PlainChat(session, ascii_only).run()


class PlainChat:
    """Reads a line, answers it or does what it commands, and says what that took."""

    def __init__(self, session: Session, ascii_only: bool = False) -> None:
        self.session = session
        self.reply: Reply | None = None
        self._ascii_only = ascii_only
        self._warned = False  # that one more Ctrl+C leaves
        self._over = False

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that replies can be decoded with."""
        return self.session.methods

    def chosen(self) -> Choices:
        """What the next reply is decoded with."""
        return self.session.choices

    def change(self, choices: Choices) -> None:
        """Decode the next reply so."""
        self.session.change(choices)

    def say(self, text: str) -> None:
        """One sentence for the user."""
        _narrate(text)

    def regenerate(self, seed: int | None) -> None:
        """Another reply to the last prompt, with a random seed unless one is given."""
        self._answer(lambda stop: self.session.regenerate(seed=seed, stop=stop))

    def action_new_chat(self) -> None:
        """Forget the conversation."""
        self.session.new_chat()
        self.reply = None
        _narrate("A new conversation.")

    def action_help(self) -> None:
        """What can be said besides prompts."""
        for command in COMMANDS.values():
            _narrate(f"{command.usage}: {command.meaning}")
        _narrate("Anything else is a prompt; one that begins with two slashes is sent with one.")

    def run_quit(self) -> None:
        """Leave after this."""
        self._over = True

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
        while not self._over:
            try:
                line = _read_line()
                self._warned = False
                if line is None:
                    break
                self._take(line.strip())
            except KeyboardInterrupt:
                if self._warned:
                    raise
                self._warned = True
                _narrate("\nPress Ctrl+C again to leave.")
            except EagleChatError as problem:
                _narrate(str(problem))
        return EXIT_DONE

    def _take(self, line: str) -> None:
        if not is_utf8(line):
            raise UsageError("that is not valid UTF-8: check the terminal's encoding")
        if parse(line):
            execute(self, line, COMMANDS)
        elif line:
            prompt = prompt_text(line)
            self._answer(lambda stop: self.session.ask(prompt, seed=None, stop=stop))

    def _answer(self, reply: Callable[[threading.Event], Iterator[Event]]) -> None:
        """Stream the reply; Ctrl+C ends it after the round it is in, twice leaves."""
        stop = threading.Event()
        problem = None
        out = _Output(SPEAKER)
        try:
            with interruptible(stop, says=STOPPING):
                _narrate(SPEAKER, end="")
                for text in self._texts(reply(stop)):
                    out.add(visible(text))
        except BrokenPipeError:
            raise
        except Exception as error:
            problem = sentence_about(error, "The reply failed")
        finally:
            # what the first one said holds when the reply ended before the second
            self._warned = stop.is_set()
        out.end()
        if problem is not None:
            _narrate(problem)
        elif self.reply is not None:
            _narrate(self._numbers(self.reply))

    def _texts(self, events: Iterable[Event]) -> Iterator[str]:
        for event in events:
            match event:
                case Started():
                    self.reply = Reply(event, self.session.info)
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

    def show_tree(self, number: str) -> None:
        """The draft tree of a round of the last reply, in words."""
        rounds = self.reply.rounds if self.reply is not None else []
        if self.session.info.server is not None:
            raise UsageError("A server does not show its draft trees.")
        if not rounds:
            raise UsageError("There is no round to show yet: ask something first.")
        last = len(rounds) - 1
        if number and not (number.isdecimal() and int(number) <= last):
            raise UsageError(f"There is no round {number}: this reply has 0 to {last}.")
        record = rounds[int(number) if number else last]
        out = _Output()
        out.add("\n".join(outline(record, self._ascii_only)))
        out.end()

    def save(self, name: str) -> None:
        """The last reply as a trace."""
        file, known = Path(name).expanduser(), traces(self.reply)
        if not known:
            raise UsageError("There is no reply with rounds to save yet: ask something first.")
        if ending(file) not in known:
            raise UsageError(f"/save {name}: the name of a trace ends in {' or '.join(known)}.")
        write_new(file, known[ending(file)]())
        _narrate(f"Saved {name}; eagle-chat replay {quote(str(file))} shows it again.")


_TREE = Command(
    "tree", "[ROUND]", "the draft tree of the last round, or of this one, as an outline", PlainChat.show_tree
)
_SAVE = Command("save", "FILE", "the last reply as a trace, for eagle-chat replay", PlainChat.save)
COMMANDS = {command.name: command for command in (_TREE, _SAVE, *DECODING, *AGAIN, *COMING_AND_GOING)}


class _Output:
    """Standard output, in a terminal with breaks between words; `before` stands in its line already."""

    def __init__(self, before: str = "") -> None:
        width = _width(sys.stdout)
        self._wrap = WordWrap(write, width, len(before)) if width else None

    def add(self, text: str) -> None:
        """The next piece."""
        (self._wrap.add if self._wrap else write)(text)

    def end(self) -> None:
        """The last line ends."""
        self.add("\n")


def _width(stream: TextIO | None) -> int:
    """Columns of the terminal that `stream` writes to; 0 where it is none."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else 0


def _read_line() -> str | None:
    """What is typed or piped in; None at the end."""
    _narrate(PROMPT, end="")
    try:
        line = typed_line() if is_terminal(sys.stdin) else sys.stdin.readline()
        if not line and is_terminal(sys.stdin):
            _narrate("")
        return line or None
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
    text, width = visible(text), _width(sys.stderr)
    print(wrapped(text, width) if width and end else text, end=end, file=sys.stderr, flush=True)
