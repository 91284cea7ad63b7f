"""The chat application: takes prompts to the worker and lets the feed show what comes back."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

import eagle_chat.chat_commands  # noqa: F401 - registers them
from eagle_chat.asking_again import AskingAgain
from eagle_chat.chat_help import chat_help
from eagle_chat.choices import Choices
from eagle_chat.commands import execute, suggest
from eagle_chat.conversation_recorder import Recorder
from eagle_chat.conversations import SavedConversation
from eagle_chat.documents import Turn
from eagle_chat.editing import Editing
from eagle_chat.engine_feed import EngineFeed
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Failed
from eagle_chat.exporting_app import ExportingApp
from eagle_chat.frame_budget import FrameBudget
from eagle_chat.look import Look
from eagle_chat.palette_commands import palette_commands
from eagle_chat.pausing import Pausing
from eagle_chat.reply import Reply
from eagle_chat.reply_traces import packed_trace
from eagle_chat.saved_chats import SavedChats
from eagle_chat.screens.chat import ChatScreen
from eagle_chat.screens.compare import CompareScreen
from eagle_chat.screens.help import HelpScreen
from eagle_chat.sending import Sending
from eagle_chat.widgets.live_tree import NOTHING_THAT_WAY, LiveTree
from eagle_chat.widgets.prompt import Prompt
from eagle_chat.worker import Replacement, SessionFactory, Worker

ReplacementFactory = Callable[[str, Choices], Replacement]

TICK = 0.1  # seconds between looks at the inbox
QUIT_TWICE = 2.0  # seconds in which a second ctrl+c quits


class EagleChatApp(ExportingApp):
    """Owns the worker and decides what a key does now; the feed and the screens show what comes back."""

    CSS_PATH = "app.tcss"
    TITLE = "eagle-chat"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "compare", "compare", id="app.compare", key_display="^r",
                tooltip="the last prompt again, without drafting, side by side"),
        Binding("ctrl+n", "new_chat", "new chat", id="app.new_chat", key_display="^n"),
        Binding("ctrl+o", "conversations", "conversations", id="app.conversations", show=False,
                tooltip="those of earlier: search, resume, export, delete"),
        Binding("f5", "regenerate", "regenerate", id="app.regenerate", show=False,
                tooltip="the last reply, with a new seed"),
        Binding("f2", "command('/params')", "parameters", id="app.parameters", show=False,
                tooltip="temperature, seed, method, system prompt and the rest"),
        Binding("f3", "command('/methods')", "methods", id="app.methods", show=False,
                tooltip="what can draft, with a card for each"),
        Binding("f1,question_mark", "help", "help", id="app.help", key_display="f1"),
        Binding("ctrl+q", "quit", "quit", id="app.quit", key_display="^q", priority=True),
        Binding("ctrl+c", "interrupt", "stop or quit", id="app.interrupt", show=False,
                tooltip="stops the reply; twice when idle quits"),
    ]  # fmt: skip

    def __init__(  # noqa: PLR0913
        self, make_session: SessionFactory, *, theme: str | None = None, title: str = "",
        budget: FrameBudget | None = None, recorder: Recorder | None = None,
        resume: SavedConversation | None = None, look: Look | None = None,
        replacement: ReplacementFactory | None = None,
    ) -> None:  # fmt: skip
        """`replacement` makes another model, by its name, to go on with."""
        super().__init__(theme, look)
        self.worker = Worker(make_session, recorder)
        self.saved = SavedChats(self)
        self.again: AskingAgain = AskingAgain(self)
        self._resume = resume
        self.chat = ChatScreen(title)
        budget = budget or FrameBudget()
        self.pausing = Pausing(self.worker, budget)
        self.feed: EngineFeed = EngineFeed(self.chat, budget, self.pausing, self._reply_over)
        self.editing: Editing = Editing(self)
        self.sending: Sending = Sending(self)
        self.chat.prompt_bar.suggestions.source = partial(suggest, self)
        self.replacement = replacement
        self.failure: str | None = None  # why there is no session
        self._leaving = False
        self._interrupted = -QUIT_TWICE

    def get_default_screen(self) -> Screen[None]:
        """The chat."""
        return self.chat

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Ours first, then theme, keys, screenshot and quit."""
        yield from palette_commands(self)
        yield from super().get_system_commands(screen)

    def on_ready(self) -> None:
        """Load only after the first frame: importing torch keeps the interpreter busy for seconds."""
        self.call_after_refresh(self.worker.start)
        self.set_interval(TICK, self._tick)
        if self._resume is not None:
            self.saved.resume(self._resume)

    @property
    def busy(self) -> bool:
        """Whether a reply is asked for or under way."""
        return self.chat.busy

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that replies can be decoded with."""
        return self.feed.methods

    @property
    def reply(self) -> Reply | None:
        """The newest of the conversation."""
        return self.feed.reply

    def chosen(self) -> Choices:
        """What the next reply is decoded with. Raises UsageError before there is a model."""
        if self.feed.info is None:
            raise UsageError("Wait until the model is loaded.")
        return self.feed.choices

    def change(self, choices: Choices) -> None:
        """Decode the next reply so."""
        self.feed.choices = choices
        self.worker.change(choices)

    def say(self, text: str) -> None:
        """One sentence for the user, where they look."""
        if self.screen is self.chat:
            self.chat.prompt_bar.hint(text)
        else:
            self.notify(text, markup=False)

    def documents(self) -> dict[str, Callable[[], bytes]]:
        """The last reply's trace as well."""
        return {**super().documents(), **packed_trace(self.reply)}

    def written(self) -> tuple[str, Sequence[Turn]]:
        """The conversation so far."""
        feed = self.feed
        turns = [Turn(each.prompt, each.rounds_done(), each.text, each.footer()) for each in feed.replies]
        return feed.info.model if feed.info else "", turns

    # what the user does

    def on_prompt_sent(self, message: Prompt.Sent) -> None:
        """Ask; while that cannot be, keep one prompt for later."""
        self.sending.send(message.text)

    def on_prompt_edit_left(self) -> None:
        """The message of the past stays as it is."""
        self.editing.leave()

    def action_command(self, text: str) -> bool:
        """Run a slash command; whether that could be."""
        try:
            execute(self, text)
        except EagleChatError as error:
            self.say(str(error))
            return False
        return True

    def action_stop_reply(self) -> None:
        """End the reply between rounds. A prompt that waited goes back where it was written."""
        if not self.busy:
            return
        self.worker.stop()
        self._go_on()
        self.chat.status.state("stopping…")
        self.sending.take_back()

    def action_pause_engine(self) -> None:
        """The engine waits between two rounds; or goes on, and the view with it."""
        self.pausing.toggle()
        self.chat.paused = self.pausing.wanted
        if not self.pausing.wanted:
            self.chat.tree_view.let_go()
        self.feed.look_again()

    def on_live_tree_moved(self) -> None:
        """What is beside the tree may have waited for it, and there was a way after all."""
        self.chat.prompt_bar.forget(NOTHING_THAT_WAY)
        self.feed.look_again()

    def on_live_tree_round_wanted(self) -> None:
        """One round more, where the engine waits for that."""
        self.pausing.step()

    def on_live_tree_missed(self, message: LiveTree.Missed) -> None:
        """Say what is not there."""
        self.say(message.text)

    def action_compare(self) -> None:
        """The last prompt again, without drafting."""
        self.again.compare()

    def on_compare_screen_wanted(self, message: CompareScreen.Wanted) -> None:
        """The comparison goes on with another method."""
        if isinstance(self.screen, CompareScreen) and not self.busy:
            self.again.run(self.screen)

    def action_regenerate(self) -> None:
        """Another reply to the last prompt."""
        self.regenerate(None)

    def regenerate(self, seed: int | None) -> None:
        """Another reply to the last prompt, with a random seed unless one is given."""
        self.again.regenerate(seed)

    def action_new_chat(self) -> None:
        """Forget the conversation, also in the middle of a reply."""
        if self.screen is not self.chat:
            return
        self.action_stop_reply()
        self.worker.new_chat()
        self.editing.end()
        self.feed.leave(running=self.busy)
        self.chat.clear()

    def copy_text(self, text: str) -> None:
        """To the clipboard, as far as the terminal lets us."""
        self.copy_to_clipboard(text)
        self.say("Copied through the terminal (OSC 52), where it allows that.")

    def action_conversations(self) -> None:
        """Those of earlier."""
        self.saved.open_list()

    def action_help(self) -> None:
        """Keys and definitions."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(chat_help(self.BINDINGS))

    def action_interrupt(self) -> None:
        """ctrl+c stops what runs; twice with nothing running, it quits."""
        now = time.monotonic()
        if self.busy:
            self.action_stop_reply()
        elif now - self._interrupted < QUIT_TWICE:
            self.run_quit()
        else:
            self._interrupted = now
            self.say("Press ctrl+c again to quit.")

    async def action_quit(self) -> None:
        """Leave; the engine ends after the round it is in."""
        self.run_quit()

    def run_quit(self, return_code: int = 0) -> None:
        """Leave; what still arrives has no place any more."""
        self._leaving = True
        self.worker.quit()
        self.exit(return_code=return_code)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what does something now."""
        if action in ("stop_reply", "pause_engine"):
            return self.busy
        return self.screen is self.chat or action not in (
            "compare", "conversations", "new_chat", "regenerate",
        )  # fmt: skip

    def _tick(self) -> None:
        inbox = self.worker.inbox
        while inbox and self.is_running and not self._leaving:
            event = inbox.popleft()
            if isinstance(event, Failed) and event.fatal:
                self.failure = event.message
                self.run_quit(self.worker.exit_code)
                return
            self.feed.take(event)
        self.feed.paint()

    def _reply_over(self) -> None:
        """Nothing runs any more: send what waited."""
        self._go_on()
        self.chat.busy = False
        self.sending.send_next()

    def _go_on(self) -> None:
        self.pausing.end()
        self.chat.paused = False
