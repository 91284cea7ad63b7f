"""Trains a draft head on a corpus: an iterator of what happened, closed and begun again at any time.

Given the same corpus, settings and seed, an interrupted run ends where an uninterrupted one does. A finished
run can be taken further with more conversations or more passes: the learning rate depends on the share of the
run that is done, so that it rises again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.memory import free_cached_memory
from engine.training.batches import Batch, load_batch, plan_batches
from engine.training.corpus import Corpus, Place
from engine.training.network import DraftNetwork
from engine.training.objective import Measured, Objective
from engine.training.settings import TrainingSettings
from engine.training.start import start_linear

SAVE_SECONDS = 60.0  # between two saved states
VALIDATED_STEPS = 5  # of a head that can be unrolled, whatever is trained


@dataclass(frozen=True)
class Trained:
    """One optimiser step."""

    pairs: int  # so far
    of: int
    learning_rate: float
    measured: Measured
    seconds: float  # spent on training so far


@dataclass(frozen=True)
class Validated:
    """A look at held-out conversations."""

    pairs: int
    measured: Measured
    best: bool
    seconds: float


class Trainer:
    """One training run in `folder`, which keeps its state and its best weights."""

    def __init__(  # noqa: PLR0913, PLR0917 - what is trained, on what, and where
        self,
        network: DraftNetwork,
        embedding: nn.Embedding,
        target_head: Tensor,
        corpus: Corpus,
        settings: TrainingSettings,
        folder: Path,
        draft_vocab: Tensor | None = None,
    ) -> None:
        """As `Objective`, of which `target_head` and `draft_vocab` are."""
        self.network, self.corpus, self.settings, self.folder = network, corpus, settings, folder
        network.to(target_head.device)
        self._objective = Objective(network, embedding, target_head, settings, draft_vocab)
        self._progress: dict[str, Any] = {"pairs": 0, "pass": 0, "batch": 0, "updates": 0, "seconds": 0.0}
        self._progress |= {"best": math.inf, "validations": 0, "validated": 0}
        self._progress |= {"of": settings.pairs, "corpus": corpus.tokens}
        self._training, held_out = corpus.split()
        self._planned: tuple[int, list[list[Place]]] | None = None  # a pass and its batches
        self._held_out = _up_to(held_out or self._training, settings.validated)
        self._progress["held_out"] = self._held_out_places()
        self.optimizers = _optimizers(network, settings)
        if self._state_file.is_file():
            self._restore()
        else:
            start_linear(network, embedding, corpus, self._training, settings.longest)

    @property
    def pairs(self) -> int:
        """Seen so far."""
        return self._progress["pairs"]

    @property
    def seconds(self) -> float:
        """Spent on optimiser steps so far."""
        return self._progress["seconds"]

    @property
    def best_file(self) -> Path:
        """The best weights so far."""
        return self.folder / "best.pt"

    @property
    def _state_file(self) -> Path:
        return self.folder / "state.pt"

    def run(self) -> Iterator[Trained | Validated]:
        """Train until `settings.pairs` have been seen. Closing it saves the state.

        An error does not: half an update must not replace a whole state.
        """
        saved = time.monotonic()
        try:
            while True:
                if self._is_validation_due():
                    yield self._validate()
                if time.monotonic() - saved > SAVE_SECONDS:
                    self._save()
                    free_cached_memory()  # batches of ever new shapes leave holes: 1.3 of 2.2 GB after 140
                    saved = time.monotonic()
                if self._progress["pairs"] >= self.settings.pairs:
                    break
                yield self._update(self._next_batch())
        except GeneratorExit:
            self._save()
            raise
        self._save()

    def load_best(self) -> None:
        """Go back to the weights that did best on held-out conversations."""
        self.network.load_state_dict(torch.load(self.best_file, "cpu", weights_only=True))

    def _next_batch(self) -> Batch:
        progress = self._progress
        batches = self._batches_of(progress["pass"])
        places = batches[progress["batch"]]
        progress["batch"] += 1
        if progress["batch"] == len(batches):
            progress["batch"], progress["pass"] = 0, progress["pass"] + 1
        return load_batch(self.corpus, places, self.settings.longest)

    def _batches_of(self, number: int) -> list[list[Place]]:
        """The batches of pass `number`, planned once: that takes longer the larger the corpus is."""
        if self._planned is None or self._planned[0] != number:
            settings = self.settings
            seed = settings.seed * 100_003 + number
            planned = plan_batches(self._training, settings.batch, settings.longest, seed)
            self._planned = number, planned
        return self._planned[1]

    def _update(self, batch: Batch) -> Trained:
        started = time.monotonic()
        rate = self._schedule()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.settings.learning_rate * rate
            optimizer.zero_grad()
        total, measured = self._objective(batch, self.network.steps(self.settings.steps))
        total.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        self._progress["pairs"] += batch.pairs
        self._progress["updates"] += 1
        self._progress["seconds"] += time.monotonic() - started
        return Trained(
            min(self._progress["pairs"], self.settings.pairs),
            self.settings.pairs,
            self.settings.learning_rate * rate,
            measured,
            self._progress["seconds"],
        )

    def _schedule(self) -> float:
        """Share of the highest learning rate: linear warm-up, then a cosine."""
        warm = min(1.0, (self._progress["updates"] + 1) / self.settings.warm_up)
        return warm * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * self._done())))

    def _done(self) -> float:
        """Share of the run."""
        return min(1.0, self._progress["pairs"] / self.settings.pairs)

    def _is_validation_due(self) -> bool:
        """Also where a run was stopped right before it."""
        progress = self._progress
        due = self._done() * self.settings.validations >= progress["validations"] + 1
        return due and progress["pairs"] > progress["validated"]

    @torch.no_grad()
    def _validate(self) -> Validated:
        settings, steps = self.settings, self.network.steps(VALIDATED_STEPS)
        sums, pairs = torch.zeros(2, steps), 0
        for places in plan_batches(self._held_out, settings.batch, settings.longest, seed=0):
            batch = load_batch(self.corpus, places, settings.longest)
            measured = self._objective(batch, steps)[1]
            sums += torch.tensor([measured.loss, measured.agreement]) * batch.pairs
            pairs += batch.pairs
        loss, agreement = (sums / max(1, pairs)).tolist()
        best = sum(loss) < self._progress["best"]
        if best:
            self._progress["best"] = sum(loss)
            _write(self.network.state_dict(), self.best_file)
        self._progress["validations"] += 1
        self._progress["validated"] = self._progress["pairs"]
        return Validated(
            self._progress["pairs"],
            Measured(tuple(loss), tuple(agreement)),
            best,
            self._progress["seconds"],
        )

    def _held_out_places(self) -> list[list[int]]:
        return [[place.shard, place.start] for place in self._held_out]

    def _save(self) -> None:
        state = {"progress": self._progress, "network": self.network.state_dict()}
        _write(state | {"optimizers": [o.state_dict() for o in self.optimizers]}, self._state_file)

    def _restore(self) -> None:
        state = torch.load(self._state_file, "cpu", weights_only=True)
        self.network.load_state_dict(state["network"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self._progress |= state["progress"]
        if self._progress["corpus"] != self.corpus.tokens:  # it has grown: a new order, so a new pass
            self._progress |= {"corpus": self.corpus.tokens, "pass": self._progress["pass"] + 1, "batch": 0}
        if self._progress["held_out"] != (now := self._held_out_places()):  # what was best was so on others
            self._progress |= {"held_out": now, "best": math.inf}
        if self._progress["of"] != self.settings.pairs:
            self._progress["of"] = self.settings.pairs
            self._progress["validations"] = int(self._done() * self.settings.validations)


def _optimizers(network: nn.Module, settings: TrainingSettings) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for the rest."""
    named = list(network.named_parameters())
    matrices = [p for name, p in named if p.dim() == 2 and not name.startswith("lm_head")]
    others = [p for name, p in named if p.dim() != 2 or name.startswith("lm_head")]
    rate, decay = settings.learning_rate, settings.weight_decay
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def _up_to(places: list[Place], tokens: int) -> list[Place]:
    """The first ones, `tokens` in all; at least one."""
    taken: list[Place] = []
    for place in places:
        if taken and sum(p.length for p in taken) + place.length > tokens:
            break
        taken.append(place)
    return taken


def _write(state: dict[str, Any], file: Path) -> None:
    """Whole or not at all."""
    partial = file.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(file)
