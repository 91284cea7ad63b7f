"""The methods of a benchmark one by one: same prompt, same end, and what their clocks count."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from eagle_chat.bench_asking import Stopped
from eagle_chat.bench_methods import EngineMethod, NearTies, TransformersMethod, stock_copy
from eagle_chat.benchmark import Fork
from eagle_chat.errors import EagleChatError
from engine import Engine, GenerationSettings, PromptLookup, load_model, make_target

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPT = [70, 80, 90, 70, 80, 90, 70, 80]


@pytest.fixture(params=["lean", "stock"])
def target(request, chat_model):
    """The tiny model behind either kind of target."""
    return make_target(load_model(chat_model, torch.float32, torch.device("cpu")), request.param)


def methods(target, settings: GenerationSettings, context: int = 2048):
    """Plain decoding and prompt lookup, ours and transformers'."""
    stop = threading.Event()
    stock = stock_copy(target)
    return [
        EngineMethod("none", Engine(target), None, settings, stop),
        EngineMethod("pld", Engine(target), PromptLookup(4), settings, stop),
        TransformersMethod("transformers", stock, settings, context, stop),
        TransformersMethod("transformers-pld", stock, settings, context, stop),
    ]


def test_all_end_at_the_same_token(target):
    """Catches stop ids that one of them is not told, and a length that is counted in another way."""
    plain, *others = methods(target, GenerationSettings(max_new_tokens=20))
    whole = plain.answer(PROMPT, 0.0).tokens
    assert len(whole) == 20
    assert [other.answer(PROMPT, 0.0).tokens for other in others] == [whole] * 3
    stop_token = whole[6]
    cut = whole[: whole.index(stop_token) + 1]
    settings = GenerationSettings(max_new_tokens=20, stop_ids=frozenset({3, stop_token}))
    assert [one.answer(PROMPT, 0.0).tokens for one in methods(target, settings)] == [cut] * 4


def test_all_end_where_the_context_does(target):
    """Catches `generate` that goes on beyond what the model was made for, where we stop."""
    target.model.config.max_position_embeddings = 12
    settings = GenerationSettings(max_new_tokens=20)
    lengths = [len(one.answer(PROMPT, 0.0).tokens) for one in methods(target, settings, target.context)]
    assert lengths == [4] * 4


def test_nothing_is_left_of_the_reply_before(target):
    """Catches caches that make the second reply to a prompt another one, or a shorter prefill."""
    for one in methods(target, GenerationSettings(max_new_tokens=8, seed=3)):
        for temperature in (0.0, 1.0):
            first, _, again = (one.answer(prompt, temperature) for prompt in (PROMPT, [90, 91], PROMPT))
            assert (first.tokens, first.rounds) == (again.tokens, again.rounds)


def test_temperature_is_obeyed(target):
    """Catches a method that stays greedy, or that samples where it should not."""
    ours, lookup, *theirs = methods(target, GenerationSettings(max_new_tokens=16, seed=3))
    greedy = ours.answer(PROMPT, 0.0).tokens
    assert ours.answer(PROMPT, 1.0).tokens == lookup.answer(PROMPT, 1.0).tokens != greedy
    for one in theirs:
        assert one.answer(PROMPT, 1.0).tokens != greedy


def test_rounds_are_forwards_after_the_prefill(target):
    """Catches a prefill that counts as a round, and drafts that come with it counted as decoded."""
    plain, lookup, transformers, transformers_lookup = (
        one.answer(PROMPT, 0.0) for one in methods(target, GenerationSettings(max_new_tokens=16))
    )
    for reply in (plain, transformers):
        assert (reply.rounds, reply.decoded, reply.prefilled) == (15, 15, 1)
    assert lookup.decoded == 15
    assert lookup.rounds <= 15
    assert transformers_lookup.decoded == 16 - transformers_lookup.prefilled
    assert transformers_lookup.rounds <= transformers_lookup.decoded


class Slow:
    """A model whose prefill takes long and whose rounds take 20 ms."""

    device = torch.device("cpu")

    def generate(self, ids: torch.Tensor, *, streamer, **how: object) -> None:
        """As transformers does it: prompt, tokens of the prefill, of each round."""
        streamer.put(ids)
        time.sleep(0.3)
        for given in ([1, 2], [3], [4, 5]):
            streamer.put(torch.tensor([given]))
            time.sleep(0.02)
        streamer.end()


def test_clock_of_transformers_starts_after_the_prefill():
    """Catches a speed that pays for the prompt, which ours does not, or a token of it counted."""
    settings = GenerationSettings()
    reply = TransformersMethod("transformers", Slow(), settings, 100, threading.Event()).answer([9, 9], 0.0)
    assert (reply.tokens, reply.rounds, reply.decoded) == ((1, 2, 3, 4, 5), 2, 3)
    assert 0.04 <= reply.seconds < 0.25


def test_stop_ends_a_reply(target):
    """Catches Ctrl+C that waits for the end of a long reply."""
    for one in methods(target, GenerationSettings(max_new_tokens=1000)):
        one._stop.set()
        with pytest.raises(Stopped):
            one.answer(PROMPT, 0.0)
        one._stop.clear()
        one._settings = GenerationSettings(max_new_tokens=4)
        assert len(one.answer(PROMPT, 0.0).tokens) == 4


def test_near_ties_are_measured_in_fp32(chat_model, monkeypatch):
    """Catches a gap that is measured in the precision in question, or on a model that gave its weights up."""
    settings = GenerationSettings()
    targets = [
        make_target(load_model(chat_model, dtype, torch.device("cpu")), kind)
        for dtype, kind in ((torch.bfloat16, "lean"), (torch.bfloat16, "stock"))
    ]
    prefix = torch.tensor([PROMPT])
    scores = load_model(chat_model, torch.float32, torch.device("cpu"))(input_ids=prefix).logits[0, -1]
    best, second = scores.topk(2).values.tolist()
    for epsilon, expected in ((best - second - 0.001, False), (best - second + 0.001, True)):
        monkeypatch.setattr("engine.near_tie.NEAR_TIE", epsilon)
        for target in targets:
            assert NearTies(target, settings)(Fork(tuple(PROMPT), 0.0)) is expected


def test_weights_that_are_gone():
    """Catches a traceback where the model's folder was removed in the meantime."""
    config = SimpleNamespace(name_or_path=str(Path("no", "such", "folder")))
    target = SimpleNamespace(
        model=SimpleNamespace(config=config),
        embedding=SimpleNamespace(weight=torch.zeros(1)),
        device=torch.device("cpu"),
    )
    with pytest.raises(EagleChatError, match="cannot be loaded"):
        stock_copy(target)
