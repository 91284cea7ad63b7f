"""How the methods of a benchmark reply: by our engine, or by transformers' `generate` on a model of its own.

Every reply starts with empty caches, and its clock starts with the token of the prefill. Imports torch.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from eagle_chat.bench_asking import Stopped
from eagle_chat.benchmark import TRANSFORMERS_PLD, Fork, Reply
from eagle_chat.errors import EagleChatError
from engine import (
    Drafter,
    Engine,
    EngineError,
    GenerationSettings,
    Round,
    Target,
    load_model,
    near_tie_limit,
)
from engine.near_tie import LARGEST, in_fp32, top2_gap
from engine.quantized import quantization_of

LOOKUP_TOKENS = 10  # `generate` wants a number; this is the default of the class behind it


class EngineMethod:
    """A method of ours: `drafter` on the target of `engine`, or plain decoding without one."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        drafter: Drafter | None,
        settings: GenerationSettings,
        stop: threading.Event,
    ) -> None:
        self.name = name
        self._target, self._costs = engine.target, engine.costs
        self._drafters = {name: drafter} if drafter else {}
        self._settings = settings
        self._stop = stop

    def answer(self, prompt: list[int], temperature: float) -> Reply:
        """By a new engine: nothing is cached, and the target computes no features that others read."""
        engine = Engine(self._target, self._drafters, self._costs)
        settings = replace(self._settings, temperature=temperature)
        tokens: list[int] = []
        rounds, seconds = 0, 0.0
        decoding = engine.generate(prompt, settings, self.name)
        for step in decoding:
            if isinstance(step, Round):
                tokens += step.new
                if step.index > 0:
                    rounds += 1
                    seconds += step.timing.draft + step.timing.verify + step.timing.other
            if self._stop.is_set():
                decoding.close()
                raise Stopped
        return Reply(tuple(tokens), rounds, seconds)


class TransformersMethod:
    """transformers' `generate` as a user would call it, plain or with its prompt lookup.

    `model` is a stock one. Filters, length and stop ids are those of `settings`, the rest are its defaults.
    """

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        settings: GenerationSettings,
        context: int,
        stop: threading.Event,
    ) -> None:
        self.name = name
        self._model = model
        self._settings = settings
        self._context = context
        self._stop = stop

    def answer(self, prompt: list[int], temperature: float) -> Reply:
        """The seed sets torch's own generator: sampled texts can be repeated, but are not the engine's."""
        ids = torch.tensor([prompt], device=self._model.device)
        clock = _Clock(self._stop)
        torch.manual_seed(self._settings.seed)
        self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            streamer=clock,
            **self._arguments(len(prompt), temperature),
        )
        return clock.reply()

    def _arguments(self, length: int, temperature: float) -> dict[str, Any]:
        settings = self._settings
        stop_ids = sorted(settings.stop_ids)
        arguments: dict[str, Any] = {
            "max_new_tokens": min(settings.max_new_tokens, self._context - length),
            "eos_token_id": stop_ids or None,
            "pad_token_id": stop_ids[0] if stop_ids else 0,  # never used for a single prompt, but asked for
            "repetition_penalty": settings.repetition_penalty,
            "do_sample": temperature > 0,
        }
        if temperature > 0:
            arguments |= {"temperature": temperature, "top_k": settings.top_k, "top_p": settings.top_p}
            arguments["min_p"] = settings.min_p or None
        if self.name == TRANSFORMERS_PLD:
            arguments["prompt_lookup_num_tokens"] = LOOKUP_TOKENS
        return arguments


class _Clock:
    """A streamer: takes the tokens of `generate` as each forward gives them, and the time.

    `generate` has copied them to the host already in order to see whether to stop, so looking costs nothing.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._prompt_seen = False
        self._given: list[list[int]] = []  # by each forward, the prefill first
        self._times: list[float] = []

    def put(self, value: Tensor) -> None:
        """The prompt first, then what each forward committed."""
        if self._prompt_seen:
            self._times.append(time.perf_counter())
            self._given.append(value.flatten().tolist())
        self._prompt_seen = True
        if self._stop.is_set():
            raise Stopped

    def end(self) -> None:
        """Nothing is left to do."""

    def reply(self) -> Reply:
        """All that was given; the clock started with the prefill's tokens."""
        tokens = tuple(token for tokens in self._given for token in tokens)
        if not self._given:
            return Reply(tokens, rounds=0, seconds=0.0, prefilled=0)
        seconds = self._times[-1] - self._times[0]
        return Reply(tokens, len(self._given) - 1, seconds, prefilled=len(self._given[0]))


def stock_copy(target: Target) -> PreTrainedModel:
    """The target's model once more, for `generate`: our own decoder leaves the first one without weights."""
    model = target.model
    try:
        dtype = target.embedding.weight.dtype
        return load_model(Path(model.config.name_or_path), dtype, target.device, quantization_of(model))
    except EngineError as error:
        raise EagleChatError(str(error)) from error


class NearTies:
    """Whether fp32 has the two best tokens nearly tied where two replies part. Its model is loaded once."""

    def __init__(self, target: Target, settings: GenerationSettings) -> None:
        self._target = target
        self._settings = settings
        self._model: PreTrainedModel | None = None

    def __call__(self, fork: Fork) -> bool:
        """False also where the model is too large to know."""
        model = self._target.model
        if model.num_parameters() > LARGEST:
            return False
        if self._model is None:
            try:
                self._model = in_fp32(model)
            except EngineError as error:
                raise EagleChatError(str(error)) from error
        settings = replace(self._settings, temperature=fork.temperature)
        return top2_gap(self._model, list(fork.prefix), settings) < near_tie_limit(model)
