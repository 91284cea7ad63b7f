"""A conversation with a loaded model: prompts in, events out."""

from __future__ import annotations

import gc
import secrets
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from eagle_chat import events
from eagle_chat.choices import Choices
from eagle_chat.comparison import Difference, find_difference
from eagle_chat.conversation import Turn
from eagle_chat.drafting import resize_trees, size_of
from eagle_chat.errors import UsageError
from eagle_chat.messages import Message, under_system
from eagle_chat.methods import Method
from eagle_chat.more_methods import MoreMethods
from eagle_chat.out_of_memory import is_out_of_memory, reply_ended
from eagle_chat.recording import record_round
from eagle_chat.saved_choices import left_behind
from eagle_chat.summary import STOPPED_BY_USER, Outcome, summarise
from eagle_chat.text import Prompts, TextStream, Vocabulary
from engine import (
    Drafter,
    Engine,
    GenerationSettings,
    Prefill,
    PromptTooLongError,
    Round,
    fp32_gap,
    near_tie_limit,
)
from engine.memory import free_cached_memory


@dataclass(frozen=True)
class Models:
    """The engine and what turns its token ids into text."""

    engine: Engine
    vocabulary: Vocabulary
    prompts: Prompts
    more: MoreMethods | None = None  # to be loaded when they are chosen


@dataclass(frozen=True)
class Exchange:
    """A prompt with what came before it and how it was answered: enough to run it again and compare."""

    messages: list[Message]
    settings: GenerationSettings
    choices: Choices
    reply: events.Finished | None = None  # None: another model's, or not known to the last token


class ChatSession:
    """Owns the conversation; the engine's caches follow it. Used by one thread at a time."""

    def __init__(
        self,
        models: Models,
        settings: GenerationSettings,
        info: events.SessionInfo,
        choices: Choices,
        *,
        watched: bool = True,
    ) -> None:
        self.engine = models.engine
        self.vocabulary = models.vocabulary
        self.prompts = models.prompts
        self._more, self._own_head = models.more, info.head
        self.settings = settings  # its seed is replaced for each reply
        self.info = info
        self.choices = choices
        self.watched = watched  # somebody sees the trees: record what the target thought of them
        self._restored: tuple[Choices, Choices] | None = None  # came with a conversation; were before
        self._messages = under_system(self.choices.system)
        self._last: Exchange | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that replies can be decoded with."""
        more = self._more.names if self._more else ()
        return tuple(dict.fromkeys((*self.engine.drafters, *more)))

    def ask(self, prompt: str, *, seed: int | None, stop: threading.Event) -> Iterator[events.Event]:
        """Reply to `prompt`; without a `seed` anywhere it is a random one."""
        if not prompt.strip():
            raise UsageError("the prompt is empty: type a message first")
        messages = [*self._messages, {"role": "user", "content": prompt}]
        seed = self.choices.seed if seed is None else seed
        yield from self._converse(self._exchange(messages, seed), stop)

    def regenerate(self, *, seed: int | None, stop: threading.Event) -> Iterator[events.Event]:
        """Another reply to the last prompt, in place of the one before, as is chosen now."""
        messages = under_system(self.choices.system, self._need_last().messages)
        yield from self._converse(self._exchange(messages, seed), stop)

    def again(self, *, method: str, stop: threading.Event) -> Iterator[events.Event]:
        """The last prompt with another method and the same seed, beside the conversation.

        Where the user stopped the reply it has as many tokens: nobody waits for the rest of it.
        """
        last = self._need_last()
        if last.reply and last.reply.summary.get("stopped_by") == STOPPED_BY_USER:
            settings = replace(last.settings, max_new_tokens=last.reply.summary["new_tokens"])
            last = replace(last, settings=settings)
        finished = yield from self._reply(last, method, stop, again=True)
        yield replace(finished, difference=self._difference(last, finished))

    def with_drafter(self, method: str, drafter: Drafter) -> ChatSession:
        """An empty conversation with the same model and settings, drafted by `drafter` alone.

        It takes over the target: an earlier session on it must not be used any more.
        """
        engine = Engine(self.engine.target, {method: drafter}, self.engine.costs)
        engine.reset()
        return ChatSession(
            Models(engine, self.vocabulary, self.prompts),
            self.settings,
            replace(self.info, method=method),
            replace(self.choices, method=method),
            watched=self.watched,
        )

    def head_of(self, method: str) -> str | None:
        """What `method` drafts with, if with a head; else that of the session."""
        return (self._more and self._more.head_of(method)) or self._own_head

    def load(self, method: str) -> bool:
        """Have `method` to decode with; whether its head had to be loaded. Raises EagleChatError."""
        if method not in self.methods:
            raise UsageError(f"this session has no method {method}: {', '.join(self.methods)}")
        if self._more is None or method in self.engine.drafters:
            return False
        self._more.load(method, self.engine)
        return True

    def change(self, choices: Choices) -> None:
        """Decode what follows as chosen. The caches stay, but a new system prompt has all read again.

        Raises UsageError, and changes nothing, for what cannot be.
        """
        loaded, changed = self.load(choices.method), choices.tree != self.choices.tree
        if changed or (loaded and choices.tree):
            prompt = self.prompts.encode([{"role": "user", "content": "Hello"}])
            asked = Method(choices.method) if changed else None
            resize_trees(self.engine, choices.tree, self.info.model, prompt, asked)
        self.choices = choices
        self.settings = _decoded_as(choices, self.settings)
        self._messages = under_system(choices.system, self._messages)
        size, sized = size_of(self.engine.drafters[choices.method])
        self.info = replace(
            self.info,
            method=choices.method,
            head=self.head_of(choices.method),
            temperature=choices.temperature,
            nodes=size.nodes,
            depth=size.depth,
            beam=size.beam,
            sized=sized,
        )

    def go_on_after(self, turns: Sequence[Turn]) -> None:
        """Go on after these turns, whichever model wrote them."""
        self._forget()
        for turn in turns:
            asked = [*self._messages, {"role": "user", "content": turn.prompt}]
            settings = replace(_decoded_as(turn.choices, self.settings), seed=turn.seed)
            ours = turn.summary.get("weights_sha256") == self.info.weights_sha256
            reply = events.Finished(turn.text, dict(turn.summary)) if ours else None
            self._last = Exchange(asked, settings, turn.choices, reply)
            self._messages = [*asked, {"role": "assistant", "content": turn.text}]

    def new_chat(self) -> None:
        """Forget the conversation, and how it was decoded where that came with it."""
        if self._restored:
            self.change(left_behind(self.choices, *self._restored))
            self._restored = None
        self._forget()

    def restore(self, messages: Sequence[Message], choices: Choices) -> None:
        """Go on after `messages`, decoded as chosen; the next prompt has them read."""
        self.new_chat()
        before = self.choices
        self.change(choices)
        self._restored = choices, before
        self._messages = under_system(choices.system, messages)
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._last = self._exchange(self._messages[:-1], self.choices.seed)

    def close(self) -> None:
        """Give the models' memory back; the session is of no use any more."""
        del self.engine
        gc.unfreeze()
        gc.collect()
        free_cached_memory()

    def _forget(self) -> None:
        self.engine.reset()
        self._messages = under_system(self.choices.system)
        self._last = None

    def _exchange(self, messages: list[Message], seed: int | None) -> Exchange:
        """To be decoded as chosen, with a random seed where there is none."""
        return Exchange(messages, replace(self.settings, seed=_seed(seed)), self.choices)

    def _need_last(self) -> Exchange:
        if self._last is None:
            raise UsageError("there is no prompt to run again yet: send one first")
        return self._last

    def _converse(self, exchange: Exchange, stop: threading.Event) -> Iterator[events.Event]:
        finished = yield from self._reply(exchange, self.info.method, stop, again=False)
        # A reply stopped before its first word leaves no trace: two user turns in a row fit no template.
        if finished.text:
            self._last = replace(exchange, reply=finished)
            self._messages = [*exchange.messages, {"role": "assistant", "content": finished.text}]
        yield finished

    def _reply(
        self, exchange: Exchange, method: str, stop: threading.Event, again: bool
    ) -> Generator[events.Event, None, events.Finished]:
        """Everything but the last event, which is returned."""
        seed, messages = exchange.settings.seed, exchange.messages
        yield events.Started(
            messages[-1]["content"], method, seed, again, messages=messages, choices=exchange.choices
        )
        outcome, stream = Outcome(method, seed), TextStream(self.vocabulary)
        decoding = self.engine.generate(self.prompts.encode(exchange.messages), exchange.settings, method)
        try:
            for step in decoding:
                if isinstance(step, Prefill):
                    yield events.Prefill(step.done, step.total)
                else:
                    yield self._record(step, outcome, stream)
                if stop.is_set():
                    break
        except PromptTooLongError as error:
            earlier = len(under_system(None, exchange.messages)) > 1
            raise UsageError(f"{error}{', or start a new chat' if earlier else ''}") from None
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                raise reply_ended(self.info.device, len(self.engine.tokens)) from None
            raise
        finally:
            decoding.close()
        return events.Finished(outcome.text, summarise(self.info, outcome), again)

    def _record(self, step: Round, outcome: Outcome, stream: TextStream) -> events.RoundDone:
        record = record_round(step, self.vocabulary, self.watched)
        text = stream.add(step.new)
        if step.stopped_by:  # where the user stops, half a character is left out
            text += stream.end()
        outcome.statistics.add(record)
        outcome.tokens += step.new
        outcome.text += text
        outcome.stopped_by = step.stopped_by or outcome.stopped_by
        return events.RoundDone(record, text)

    def _difference(self, last: Exchange, plain: events.Finished) -> Difference | None:
        """Where the conversation's reply and a plain run of its prompt part, and how close the call was."""
        if last.reply is None:
            return None
        found = find_difference(last.reply.summary, plain.summary)
        if found is None:
            return None
        prefix = self.prompts.encode(last.messages) + plain.summary["tokens"][: found.index]
        model = self.engine.target.model
        gap = fp32_gap(model, prefix, last.settings)
        return replace(found, fp32_gap=gap, near_tie=None if gap is None else gap < near_tie_limit(model))


def _decoded_as(choices: Choices, settings: GenerationSettings) -> GenerationSettings:
    """`settings` with what is chosen; stop tokens and seed stay."""
    return replace(
        settings,
        temperature=choices.temperature,
        top_k=choices.top_k,
        top_p=choices.top_p,
        min_p=choices.min_p,
        repetition_penalty=choices.repetition_penalty,
        max_new_tokens=choices.max_new_tokens,
    )


def _seed(seed: int | None) -> int:
    """The given seed or a random one, short enough to read out."""
    return secrets.randbelow(2**31) if seed is None else seed
