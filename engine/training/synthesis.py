"""Self-synthesis: the target writes whole conversations, many at once (the idea of Magpie, Xu et al., 2024).

Opened where a user's message begins, a chat model writes one, since that is what it was trained to continue.
All rows of a batch start with the same opening and take one token per forward, so that no row needs padding
or a mask; a turn that ends is followed by the template's own tokens up to the next turn, until the batch has
its length. Some of the user's turns begin with words that lead to what people often ask, and the model goes
on from there; others quote the last answer and ask for work on it, since much is asked about a text, and
answers then copy from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from engine.linear import with_packed_weights
from engine.training.corpus import Conversation
from engine.training.many_rows import DECODE_ATTENTION, SlabLayer

TOP_K = 64  # tokens a sampled pick is made from
LOOP_CHECK = 16  # steps between two looks for loops
LOOP_TOKENS = 48  # a repetition this long ends a turn
FIRST_WORDS = 24  # tokens
SHORTEST_READING = 32  # tokens of an answer that is quoted


class Role(Enum):
    """Whose turn it is."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True)
class ChatLayout:
    """What a chat template puts before, between and after turns, as token ids."""

    openings: tuple[
        tuple[Role, tuple[int, ...]], ...
    ]  # the first turn's role, and all that precedes its text
    after: dict[Role, tuple[int, ...]]  # from the end of a role's text to the start of the next turn's
    stop_ids: frozenset[int]  # what the model ends a turn with
    requests: tuple[tuple[int, ...], ...] = ()  # how a user's turn begins that the model goes on with
    readings: tuple[tuple[int, ...], ...] = ()  # how one begins that then quotes the last answer


@dataclass(frozen=True)
class Style:
    """How long turns and conversations are, in tokens, and how they are sampled."""

    lengths: tuple[int, ...] = (384, 384, 640)  # of whole conversations, batch by batch
    system: int = 96  # at most, as the next two
    user: int = 256
    assistant: int = 320
    shortest: float = 0.25  # of those limits
    temperatures: tuple[float, ...] = (0.0, 0.0, 0.0, 0.7, 1.0)  # of the answers, equally often
    top_p: float = 0.95  # of turns that are not answers
    request: float = 0.5  # share of the user's turns that begin with one of the layout's requests
    reading: float = 0.35  # of those after the first: share that hands the last answer back, to be worked on


@dataclass
class _Row:
    """One conversation in the making."""

    role: Role
    limit: int
    temperature: float
    turn: list[int] = field(default_factory=list)
    forced: list[int] = field(default_factory=list)  # tokens still to come that are not the model's
    answer: list[int] = field(default_factory=list)  # the last one


_NEXT = {Role.SYSTEM: Role.USER, Role.USER: Role.ASSISTANT, Role.ASSISTANT: Role.USER}


class Synthesis:
    """Has a causal LM of transformers write conversations, `rows` at once."""

    def __init__(
        self,
        model: PreTrainedModel,
        layout: ChatLayout,
        taps: tuple[int, ...],
        rows: int = 64,
        style: Style | None = None,
    ) -> None:
        self.model, self.layout, self.taps, self.rows = model, layout, taps, rows
        self.style = style or Style()

    def batch(self, number: int, seed: int = 0, tokens: int | None = None) -> SynthesisBatch:
        """Batch `number`, to be run; number and seed decide what it says, as far as the arithmetic allows.

        It has fewer rows where `tokens` are enough.
        """
        return SynthesisBatch(self, number, seed, tokens)

    def first_words(self, tokens: Tensor) -> tuple[int, ...]:
        """How the first turn of a conversation [T] begins, to tell repeated ones by."""
        start = 0
        for _, opening in self.layout.openings:
            if len(opening) > start and tuple(tokens[: len(opening)].tolist()) == opening:
                start = len(opening)
        return tuple(tokens[start : start + FIRST_WORDS].tolist())


class SynthesisBatch:
    """Conversations in the making: iterate to write on; what is written can be had at any time."""

    def __init__(self, synthesis: Synthesis, number: int, seed: int, tokens: int | None) -> None:
        self.model, self.layout, self.taps = synthesis.model, synthesis.layout, synthesis.taps
        self.style = synthesis.style
        self._random = torch.Generator().manual_seed(seed * 1_000_003 + number)
        role, self._opening = self.layout.openings[number % len(self.layout.openings)]
        lengths = self.style.lengths
        length = lengths[number // len(self.layout.openings) % len(lengths)]
        self.length = max(length, len(self._opening))  # of each, tokens
        enough = synthesis.rows if tokens is None else math.ceil(tokens / self.length)
        self.rows = min(synthesis.rows, max(1, enough))
        self._states = [self._row(role) for _ in range(self.rows)]
        for row in self._states:
            self._lead(row)
        # Room for all of it at once: pieces would lie between the forward's own tensors, which grow with
        # every step, so that memory once freed fits nothing any more (measured: 22 GB after four batches).
        self._tokens = torch.empty(self.rows, self.length, dtype=torch.int32)
        self._features: Tensor | None = None  # [B, length, F]
        self._done = 0  # tokens of each row

    @torch.inference_mode()
    def __iter__(self) -> Iterator[int]:
        """One forward at a time; the tokens written so far, of all rows."""
        before = self.model.config._attn_implementation
        self.model.set_attn_implementation(DECODE_ATTENTION)
        try:
            with with_packed_weights(self.model):
                yield from self._write()
        finally:
            self.model.set_attn_implementation(before)

    def conversations(self) -> list[Conversation]:
        """What is written, with its features."""
        if self._features is None:
            return []
        columns = self._tokens[:, : self._done], self._features[:, : self._done]
        return [Conversation(*pair) for pair in zip(*columns, strict=True)]

    def _write(self) -> Iterator[int]:
        cache = DynamicCache(config=self.model.config)
        cache.layers = [SlabLayer(self.rows, self.length) for _ in cache.layers]
        fed = torch.tensor([self._opening])  # [1, t]; later [B, 1]
        while True:
            logits, features = self._forward(fed, cache)
            self._store(fed, features)
            yield self.rows * self._done
            if self._done >= self.length:
                break
            picks = self._pick(logits.expand(self.rows, -1))
            fed = torch.tensor([[self._advance(*pair)] for pair in zip(self._states, picks, strict=True)])
            if (self._done + 1) % LOOP_CHECK == 0:
                self._end_loops()

    def _store(self, tokens: Tensor, features: Tensor) -> None:
        """What was fed, [1, t] or [B, t], and its features."""
        if self._features is None:
            self._features = features.new_empty(self.rows, self.length, features.shape[-1])
        end = self._done + tokens.shape[1]
        self._tokens[:, self._done : end] = tokens
        self._features[:, self._done : end] = features
        self._done = end

    def _forward(self, fed: Tensor, cache: DynamicCache) -> tuple[Tensor, Tensor]:
        """Logits [B, V] after the last fed token and features [B, t, F] of all fed ones."""
        outputs = self.model(
            input_ids=fed.to(self.model.device),
            cache=cache,
            logits_to_keep=1,
            output_hidden_states=list(self.taps),
        )
        states = [outputs.hidden_states[tap].cpu() for tap in self.taps]
        return outputs.logits[:, -1], torch.cat(states, dim=-1)

    def _pick(self, logits: Tensor) -> list[int]:
        """Each row's next token, of its TOP_K best ones, by Gumbel-max."""
        scores, ids = (x.cpu() for x in logits.float().topk(TOP_K))  # [B, TOP_K], best first
        answering = torch.tensor([row.role is Role.ASSISTANT for row in self._states])
        temperature = torch.tensor([row.temperature for row in self._states])
        temperature = torch.where(answering, temperature, 1.0)[:, None]
        greedy = temperature == 0
        scaled = scores / torch.where(greedy, 1.0, temperature)
        before = scaled.softmax(-1).cumsum(-1).roll(1, dims=-1)  # mass of the better tokens
        before[:, 0] = 0
        scaled = scaled.masked_fill(~answering[:, None] & (before > self.style.top_p), -torch.inf)
        uniform = torch.rand(scaled.shape, generator=self._random).clamp(1e-10, 1 - 1e-7)
        noise = torch.where(greedy, 0.0, -torch.log(-torch.log(uniform)))
        return ids.gather(1, (scaled + noise).argmax(-1, keepdim=True))[:, 0].tolist()

    def _advance(self, row: _Row, pick: int) -> int:
        """The token that follows in `row`: the template's while it is the template's turn, else the pick."""
        if not row.forced:
            if pick not in self.layout.stop_ids and len(row.turn) < row.limit:
                row.turn.append(pick)
                return pick
            self._end_turn(row)
        return row.forced.pop(0)

    def _end_loops(self) -> None:
        for row in self._states:
            if not row.forced and loops(row.turn):
                self._end_turn(row)

    def _end_turn(self, row: _Row) -> None:
        """Let the template's tokens come next, then the next role's turn."""
        following = self._row(_NEXT[row.role], row.temperature)
        row.forced = list(self.layout.after[row.role])
        if row.role is Role.ASSISTANT:
            row.answer = row.turn
        row.role, row.limit, row.turn = following.role, following.limit, []
        if row.role is Role.USER and self._reads(row):
            reading = self.layout.readings[self._draw(len(self.layout.readings))]
            row.forced += (*reading, *row.answer)
            row.limit = 0  # nothing to add: the turn ends with the text
        else:
            self._lead(row)

    def _lead(self, row: _Row) -> None:
        """Put words into the user's mouth, now and then."""
        requests = self.layout.requests
        if row.role is not Role.USER or not requests:
            return
        if torch.rand((), generator=self._random).item() < self.style.request:
            row.forced += requests[self._draw(len(requests))]

    def _reads(self, row: _Row) -> bool:
        """Whether the user's next turn quotes the last answer, which must be worth it."""
        if not self.layout.readings or len(row.answer) < SHORTEST_READING:
            return False
        return torch.rand((), generator=self._random).item() < self.style.reading

    def _draw(self, choices: int) -> int:
        return int(torch.randint(choices, (), generator=self._random))

    def _row(self, role: Role, temperature: float | None = None) -> _Row:
        longest = getattr(self.style, role.value)
        share = (
            self.style.shortest + (1 - self.style.shortest) * torch.rand((), generator=self._random).item()
        )
        if temperature is None:
            temperature = self.style.temperatures[self._draw(len(self.style.temperatures))]
        return _Row(role, max(1, int(longest * share)), temperature)


def loops(turn: list[int], longest: int = LOOP_TOKENS) -> bool:
    """Whether the last `longest` tokens repeat with a period of at most a third of them."""
    tail = turn[-longest:]
    return len(tail) == longest and any(
        tail[period:] == tail[:-period] for period in range(1, longest // 3 + 1)
    )
