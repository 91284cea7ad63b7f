"""A conversation with a model that a server runs, with whatever it drafts on its side."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from time import perf_counter
from typing import Any

from eagle_chat.choices import Choices
from eagle_chat.conversation import Turn
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import SERVER, Event, Finished, Loading, Note, SessionInfo, Started
from eagle_chat.messages import Message, under_system
from eagle_chat.options import Options
from eagle_chat.records import Acceptance
from eagle_chat.saved_choices import left_behind
from eagle_chat.server.address import api_key
from eagle_chat.server.client import Model, ServerClient
from eagle_chat.server.failures import RequestRefusedError
from eagle_chat.server.metrics import Counters, acceptance_between, acceptance_in, read_counters
from eagle_chat.server.options import NO_COMPARISON
from eagle_chat.server.reply import Incoming
from eagle_chat.server.stream import interruptible_items
from eagle_chat.summary import STOPPED_BY_USER

COUNTING = "continuous_usage_stats"  # counts tokens along the way; vLLM and SGLang do
EXTENSIONS = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}  # not OpenAI's; where they are off
ENDS = {"stop": "stop_token", "length": "max_new_tokens"}  # finish reasons, in our words


def connect(options: Options, progress: Callable[[Loading], None]) -> ServerSession:
    """Ask the server what it has, and choose the model."""
    assert options.server is not None
    progress(Loading(f"asking {options.server} for its models"))
    client = ServerClient(options.server, options.server_timeout, api_key())
    model, notes = _choose(client.models(), options)
    return ServerSession(client, model, options, notes)


def _choose(models: list[Model], options: Options) -> tuple[Model, list[str]]:
    """The model that was named, or the first one and a sentence about the choice."""
    names = ", ".join(model.name for model in models[:10]) + (", …" if len(models) > 10 else "")
    if not models:
        raise EagleChatError(f"The server {options.server} has no model loaded.")
    if not options.model:
        others = [f"The server has {names}; {models[0].name} replies. --model names another."]
        return models[0], others if len(models) > 1 else []
    named = next((model for model in models if model.name == options.model), None)
    if named is None:
        raise UsageError(f"the server {options.server} has no model {options.model}; it has {names}")
    return named, []


class ServerSession:
    """Keeps the conversation here; the server is sent all of it with every prompt."""

    def __init__(self, client: ServerClient, model: Model, options: Options, notes: Sequence[str]) -> None:
        self._client = client
        self.choices = Choices.of(options, SERVER)
        self.methods = (SERVER,)  # however it drafts
        self._restored: tuple[Choices, Choices] | None = None  # came with a conversation; were before
        self._messages = under_system(self.choices.system)
        self._last: list[Message] | None = None  # what the last reply answered
        self._left_out: tuple[str, ...] = ()  # parameters that the server refuses
        self._told = [COUNTING]  # of these the user knows, or need not know
        self.info = SessionInfo(
            model=model.name,
            method=SERVER,
            dtype="",
            device=SERVER,
            weights_sha256="",
            context=model.context,
            nodes=0,
            depth=0,
            beam=0,
            temperature=options.temperature,
            notes=tuple(notes),
            server=client.address,
        )

    def ask(self, prompt: str, *, seed: int | None, stop: threading.Event) -> Iterator[Event]:
        """Have the server reply to `prompt`; without a `seed` anywhere it is a random one."""
        if not prompt.strip():
            raise UsageError("the prompt is empty: type a message first")
        messages = [*self._messages, {"role": "user", "content": prompt}]
        yield from self._converse(messages, self.choices.seed if seed is None else seed, stop)

    def regenerate(self, *, seed: int | None, stop: threading.Event) -> Iterator[Event]:
        """Another reply to the last prompt, in place of the one before, as is chosen now."""
        if self._last is None:
            raise UsageError("there is no prompt to run again yet: send one first")
        yield from self._converse(under_system(self.choices.system, self._last), seed, stop)

    def again(self, *, method: str, stop: threading.Event) -> Iterator[Event]:
        """There is no other method."""
        raise UsageError(NO_COMPARISON)

    def new_chat(self) -> None:
        """Forget the conversation, and what was asked for where that came with it."""
        if self._restored:
            self.change(left_behind(self.choices, *self._restored))
            self._restored = None
        self._forget()

    def change(self, choices: Choices) -> None:
        """Ask for what follows as chosen. Raises UsageError for what is the server's own."""
        if choices.method != SERVER or choices.tree:
            raise UsageError("the server drafts as it was started: method and trees are not ours to choose")
        self.choices = choices
        self._messages = under_system(choices.system, self._messages)
        self.info = replace(self.info, temperature=choices.temperature)

    def go_on_after(self, turns: Sequence[Turn]) -> None:
        """Go on after these turns, whichever model wrote them."""
        self._forget()
        for turn in turns:
            self._last = [*self._messages, {"role": "user", "content": turn.prompt}]
            self._messages = [*self._last, {"role": "assistant", "content": turn.text}]

    def close(self) -> None:
        """Nothing here has to be given back."""

    def _forget(self) -> None:
        self._messages = under_system(self.choices.system)
        self._last = None

    def restore(self, messages: Sequence[Message], choices: Choices) -> None:
        """Go on after `messages`, asked for as chosen."""
        self.new_chat()
        before = self.choices
        self.change(choices)
        self._restored = choices, before
        self._messages = under_system(choices.system, messages)
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._last = self._messages[:-1]

    def _converse(self, messages: list[Message], seed: int | None, stop: threading.Event) -> Iterator[Event]:
        seed = secrets.randbelow(2**31) if seed is None else seed
        reply = Incoming(seed)
        self._last = messages  # also of a reply that fails: f5 asks again
        yield Started(messages[-1]["content"], SERVER, seed, messages=messages, choices=self.choices)
        before = self._counters()
        try:
            yield from self._receive(messages, reply, stop)
        finally:  # what came before something failed is part of the conversation
            if reply.text:
                self._messages = [*messages, {"role": "assistant", "content": reply.text}]
        if reply.finish is None:
            reply.finish = STOPPED_BY_USER if stop.is_set() else "stop"
        yield reply.end(self._acceptance(reply, before))
        yield Finished(reply.text, self._summary(reply))

    def _receive(self, messages: list[Message], reply: Incoming, stop: threading.Event) -> Iterator[Event]:
        before = self._left_out
        while True:
            reply.since = perf_counter()
            stream = self._client.stream(self._body(messages, reply.seed))
            try:
                for chunk in interruptible_items(stream, stop):
                    if untold := [name for name in self._left_out if name not in self._told]:
                        self._told += untold
                        yield Note(f"The server refuses {' and '.join(untold)}: it replies without.")
                    if arrived := reply.add(chunk):
                        yield arrived
                return
            except RequestRefusedError:
                if not self._leave_out_more():
                    self._left_out = before  # these were not why
                    raise

    def _leave_out_more(self) -> bool:
        """First what only we want, then what the user wants and OpenAI does not know; False after that."""
        wanted = tuple(self._extensions())
        for left_out in ((COUNTING,), (COUNTING, *wanted)):
            if len(left_out) > len(self._left_out):
                self._left_out = left_out
                return True
        return False

    def _extensions(self) -> dict[str, float]:
        """Those that are on."""
        values = {name: getattr(self.choices, name) for name in EXTENSIONS}
        return {name: value for name, value in values.items() if value != EXTENSIONS[name]}

    def _body(self, messages: list[Message], seed: int) -> dict[str, Any]:
        choices, streaming = self.choices, {"include_usage": True}
        if COUNTING not in self._left_out:
            streaming[COUNTING] = True
        extensions = {name: value for name, value in self._extensions().items() if name not in self._left_out}
        return {
            "model": self.info.model,
            "messages": messages,
            "stream": True,
            "stream_options": streaming,
            "max_tokens": choices.max_new_tokens,
            "temperature": choices.temperature,
            "top_p": choices.top_p,
            "seed": seed,
            **extensions,
        }

    def _acceptance(self, reply: Incoming, before: Counters | None) -> Acceptance | None:
        """What the server says of it, in its last event or by its counters."""
        told = acceptance_in(reply.timings)
        if told is not None or before is None:
            return told
        after = self._counters()
        stopped = reply.finish == STOPPED_BY_USER  # then it wrote more than we have read
        new_tokens = None if stopped else reply.new_tokens
        return None if after is None else acceptance_between(before, after, new_tokens)

    def _counters(self) -> Counters | None:
        """What the metrics page says now."""
        page = self._client.metrics()
        return None if page is None else read_counters(page)

    def _summary(self, reply: Incoming) -> dict[str, Any]:
        """The keys of every reply's summary; null is what a server does not say. Times are our clock's."""
        statistics, acceptance = reply.statistics, reply.statistics.acceptance
        return {
            "text": reply.text,
            "tokens": None,
            "new_tokens": reply.new_tokens,
            "rounds": None,
            "tau": statistics.tau,
            "tokens_per_second": statistics.tokens_per_second,
            "seconds": (statistics.prefill_ms + statistics.decode_ms) / 1000,
            "timings_ms": {"prefill": statistics.prefill_ms, "draft": None, "verify": None, "other": None},
            "method": SERVER,
            "model": self.info.model,
            "weights_sha256": None,
            "dtype": None,
            "seed": reply.seed,
            "temperature": self.info.temperature,
            "stopped_by": ENDS.get(reply.finish or "", reply.finish),
            "server": {
                "address": self.info.server,
                "prompt_tokens": reply.prompt_tokens,
                "pieces": statistics.pieces,
                "acceptance": asdict(acceptance) if acceptance else None,
            },
        }
