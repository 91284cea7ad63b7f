"""A training run in a folder: plan, conversations, features, training, head; stopped and resumed anywhere."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from eagle_chat.borrowed_corpus import borrow, reading_only
from eagle_chat.errors import UsageError
from eagle_chat.messages_file import read_conversations
from eagle_chat.new_head import head_shape, make_network, taps
from eagle_chat.training_plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_chat.text import Prompts
    from engine import StockTarget
    from engine.training import (
        Conversation,
        Corpus,
        Sizes,
        Speeds,
        Synthesis,
        SynthesisBatch,
        Trained,
        Trainer,
        TrainingSettings,
        Validated,
    )

SHARD_TOKENS = 16_384  # of own conversations, about; the target's own come batch by batch
SHORTEST = 64  # tokens of a synthesised conversation worth keeping
READ = 256  # tokens to measure the speed of reading with
TRIES = 4  # at a batch that says nothing new, before giving up
OTHER_SEED = 2**31  # added for another try: beyond the seeds of the command line


@dataclass(frozen=True)
class Synthesised:
    """Conversations written or read so far."""

    tokens: int
    of: int
    new_tokens: int  # by this run of the command
    seconds: float  # it took for them


@dataclass(frozen=True)
class Featured:
    """Shards whose features are there."""

    shards: int
    of: int


@dataclass(frozen=True)
class Began:
    """Training begins or goes on."""

    pairs: int  # trained on so far
    of: int
    vocabulary: int  # size of the draft vocabulary
    covered: float  # share of the conversations' tokens that are in it


Event: TypeAlias = "Synthesised | Featured | Began | Trained | Validated"


class TrainingRun:
    """The stages, in order; each goes on where it was stopped."""

    def __init__(
        self, folder: Path, plan: Plan, target: StockTarget, prompts: Prompts, stop: frozenset[int]
    ) -> None:
        from engine.training import Corpus

        self.folder, self.plan, self.target, self.prompts, self.stop_ids = folder, plan, target, prompts, stop
        self.shape, self.inner = head_shape(target)
        self.taps = taps(plan.method, target)
        target.taps = self.taps
        self.corpus: Corpus = Corpus(folder / "corpus", self.taps)
        self.trainer: Trainer | None = None

    def events(self) -> Generator[Event]:
        """Everything there is to do, bit by bit; closing it keeps what is done."""
        yield from self._write_conversations()
        yield from self._compute_features()
        trainer = self._make_trainer()
        pairs, of = trainer.pairs, trainer.settings.pairs
        yield Began(pairs, of, len(self.draft_vocab), round(self.covered, 4))
        yield from trainer.run()
        trainer.load_best()
        self._export(trainer)

    def synthesis(self) -> Synthesis:
        """The target as a writer of conversations."""
        from engine.training import Style, Synthesis

        style = Style(lengths=tuple(min(length, self.target.context) for length in Style.lengths))
        return Synthesis(self.target.model, self.prompts.layout(self.stop_ids), self.taps, style=style)

    @property
    def _lm_head(self) -> Tensor:
        """[V, H], the target's."""
        return self.target.lm_head.weight.detach()

    def measure(self) -> tuple[Speeds, Sizes]:
        """What the plan will take on this machine, found out in seconds."""
        import torch

        from engine.training import expected_sizes, measure_speeds

        ids = torch.arange(min(self.plan.vocabulary, self.target.vocabulary))
        synthesis, lm_head = self.synthesis(), self._lm_head
        network = make_network(self.plan, self.target, self.shape, self.inner, lm_head[: len(ids)])
        speeds = measure_speeds(synthesis, network, self.target.embedding, lm_head, self._settings(1), ids)
        sizes = expected_sizes(self.target, synthesis, network, self.shape)
        if self.plan.data:
            speeds = replace(speeds, written=self._reading_speed())
        if self.plan.corpus:
            return reading_only(self.corpus, self._reading_speed(), speeds, sizes)
        return speeds, sizes

    def _reading_speed(self) -> float:
        """Tokens per second of conversations that need features only."""
        for _ in range(2):  # the first time warms up
            started = time.perf_counter()
            self.target.rewind(0)
            for chunk in self.target.extend([0] * min(READ, self.target.context)):
                chunk.logits.sum().item()  # a GPU works on while we go on
        self.target.rewind(0)
        return READ / (time.perf_counter() - started)

    def plan_borrowed(self, tokens: int | None) -> None:
        """Plan with another run's conversations, where that was asked for. Raises UsageError."""
        if self.plan.corpus:
            self.plan = borrow(self.corpus, self.plan, tokens)

    def plan_own(self) -> None:
        """Plan with the tokens that the user's file has, where there are fewer. Raises UsageError."""
        file = self.plan.data
        if file is None:
            return
        tokens = sum(len(conversation.tokens) for conversation in self._own(Path(file)))
        if tokens == 0:
            raise UsageError(f'{file} holds no conversations: write one object with "messages" a line')
        self.plan = replace(self.plan, tokens=tokens)

    def facts(self) -> dict[str, Any]:
        """About the finished head, for its card."""
        assert self.trainer is not None
        return {
            **asdict(self.plan),
            "guesses": self.plan.guesses,
            "parameters": sum(parameter.numel() for parameter in self.trainer.network.parameters()),
            "vocabulary": len(self.draft_vocab),
            "covered": self.covered,
            "conversations": sum(len(places) for places in self.corpus.places.values()),
            "tokens": self.corpus.tokens,
            "pairs": self.trainer.pairs,
            "seconds": self.trainer.seconds,
        }

    def _write_conversations(self) -> Iterator[Synthesised]:
        if self.plan.corpus:
            return
        if self.plan.data:
            yield from self._read_own(Path(self.plan.data))
            return
        before, started, tries = self.corpus.tokens, time.monotonic(), 0
        synthesis = self.synthesis()
        seen = {synthesis.first_words(tokens) for tokens in self.corpus.conversations()}
        while (kept := self.corpus.tokens) < self.plan.tokens:
            seed = self.plan.seed + OTHER_SEED * tries
            batch = synthesis.batch(self.corpus.next_number(), seed, self.plan.tokens - kept)
            of = max(self.plan.tokens, kept + batch.rows * batch.length)
            try:
                for written in batch:
                    done = kept + written
                    yield Synthesised(done, of, done - before, time.monotonic() - started)
            finally:  # also what an interrupted batch has written
                self._keep(batch, synthesis, seen)
            tries = tries + 1 if self.corpus.tokens == kept else 0
            if tries == TRIES:
                raise UsageError(
                    f"{self.plan.model} writes the same conversations again and again: give some with --data"
                )

    def _keep(self, batch: SynthesisBatch, synthesis: Synthesis, seen: set[tuple[int, ...]]) -> None:
        """Store the conversations of a batch that begin like no other."""
        fresh = []
        for conversation in batch.conversations():
            words = synthesis.first_words(conversation.tokens)
            if words not in seen and len(conversation.tokens) >= SHORTEST:
                fresh.append(conversation)
                seen.add(words)
        if fresh:
            self.corpus.add(self.corpus.next_number(), fresh)

    def _read_own(self, file: Path) -> Iterator[Synthesised]:
        """The user's file, shard by shard; conversations that are there already are passed over."""
        if (before := self.corpus.tokens) >= self.plan.tokens:
            return
        started = time.monotonic()
        passed = sum(map(len, self.corpus.places.values()))
        conversations = islice(self._own(file), passed, None)
        while shard := _up_to(SHARD_TOKENS, conversations):
            self.corpus.add(self.corpus.next_number(), shard)
            done = self.corpus.tokens
            yield Synthesised(done, self.plan.tokens, done - before, time.monotonic() - started)

    def _own(self, file: Path) -> Iterator[Conversation]:
        """The conversations of the user's file, as far as they are trained on."""
        import torch

        from engine.training import Conversation

        total, longest = 0, self._settings(1).longest
        for where, messages in read_conversations(file):
            try:
                tokens = self.prompts.encode_whole(messages)[:longest]
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from None
            if len(tokens) > 1:  # else there is no pair in it
                yield Conversation(torch.tensor(tokens, dtype=torch.int32))
                total += len(tokens)
            if total >= self.plan.tokens:
                return

    def _compute_features(self) -> Iterator[Featured]:
        missing, total = self.corpus.without_features(), len(self.corpus.places)
        for done, number in enumerate(missing, total - len(missing) + 1):
            self.corpus.compute_features(self.target, number)
            yield Featured(done, total)

    def _make_trainer(self) -> Trainer:
        from safetensors.torch import load_file, save_file

        from engine.training import Trainer, draft_vocabulary, share_covered

        size = min(self.plan.vocabulary, self.target.vocabulary)
        kept = self.folder / "draft_vocab.safetensors"
        if kept.is_file():  # what was trained for it stays
            self.draft_vocab = load_file(kept)["ids"]
        else:
            self.draft_vocab = draft_vocabulary(self.corpus, self.target.vocabulary, size)
            partial = kept.with_suffix(".partial")
            save_file({"ids": self.draft_vocab}, partial)
            partial.replace(kept)
        self.covered = share_covered(self.corpus, self.draft_vocab)
        lm_head, ids = self._lm_head, self.draft_vocab
        network = make_network(
            self.plan, self.target, self.shape, self.inner, lm_head[ids.to(lm_head.device)]
        )
        self.trainer = Trainer(
            network,
            self.target.embedding,
            lm_head,
            self.corpus,
            self._settings(self.corpus.tokens),
            self.folder,
            ids,
        )
        return self.trainer

    def _settings(self, tokens: int) -> TrainingSettings:
        from engine.training import TrainingSettings

        plan = self.plan
        return TrainingSettings(
            pairs=max(1, int(plan.passes * tokens)),
            steps=plan.steps,
            regression=plan.regression,
            longest=min(TrainingSettings.longest, self.target.context),
            seed=plan.seed,
        )

    def _export(self, trainer: Trainer) -> None:
        """Write the head, and read it back as strictly as any other."""
        from engine import load_draft_head
        from engine.training import write_head

        write_head(
            self.folder,
            trainer.network,
            self.draft_vocab,
            self.target.vocabulary,
            min(self.target.context, 2**31 - 1),
        )
        load_draft_head(self.folder, self.target, self.plan.model)


def _up_to(tokens: int, conversations: Iterator[Conversation]) -> list[Conversation]:
    """The next ones, of `tokens` in all, about."""
    taken, total = [], 0
    for conversation in conversations:
        taken.append(conversation)
        total += len(conversation.tokens)
        if total >= tokens:
            break
    return taken
