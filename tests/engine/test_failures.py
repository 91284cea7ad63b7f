"""An exception in the middle of anything leaves the conversation as it was at the last yield."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from engine import GenerationSettings
from tests.engine.conftest import DRAFTERS, Bench
from tests.engine.stubs import check_invariant, plain_reply, reply
from tests.engine.test_turns import LONG

METHODS = ("none", *DRAFTERS)
SETTINGS = GenerationSettings(temperature=0.8, repetition_penalty=1.1, max_new_tokens=30, seed=5)
PROMPT = [8, 2, 61, 30, 4, 4, 19]


class PlantedError(RuntimeError):
    """Raised by the tests alone."""


def raise_at(call: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, raising once: at its call number `call` (from 1)."""
    calls = 0

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise PlantedError
        return function(*args, **kwargs)

    return wrapped


def break_once(bench: Bench, prompt: list[int], method: str) -> None:
    """Run into the planted exception."""
    with pytest.raises(PlantedError):
        list(bench.engine.generate(prompt, SETTINGS, method))
    check_invariant(bench.engine)


def check_goes_on(bench: Bench, prompt: list[int], method: str) -> None:
    """What was committed is right, and so is the rest."""
    expected = prompt + plain_reply(bench.target, prompt, SETTINGS)
    tokens = list(bench.engine.tokens)
    assert tokens == expected[: len(tokens)]
    bench.oracle.future = expected
    room = len(expected) - len(tokens)
    rest = GenerationSettings(**{**SETTINGS.__dict__, "max_new_tokens": room})
    assert tokens + reply(bench.engine, tokens, rest, method) == expected


@pytest.fixture
def prepared(llama: Bench) -> Bench:
    """With the oracle knowing the future."""
    llama.oracle.future = PROMPT + plain_reply(llama.target, PROMPT, SETTINGS)
    return llama


@pytest.mark.parametrize("method", METHODS)
def test_exception_in_verify(prepared: Bench, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """A round that had drafted already: the drafters' caches are ahead of the text."""
    monkeypatch.setattr(prepared.engine.target, "verify", raise_at(3, prepared.engine.target.verify))
    break_once(prepared, PROMPT, method)
    assert len(prepared.engine.tokens) > len(PROMPT)
    check_goes_on(prepared, PROMPT, method)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("call", [2, 4])
@pytest.mark.parametrize("method", METHODS)
def test_exception_between_layers(
    prepared: Bench, monkeypatch: pytest.MonkeyPatch, method: str, call: int, layer: int
) -> None:
    """Some layers have cached the tree's rows and others have not: their lengths differ."""
    mlp: nn.Module = prepared.engine.target.model.model.layers[layer].mlp
    with monkeypatch.context() as patch:
        patch.setattr(mlp, "forward", raise_at(call, mlp.forward))
        break_once(prepared, PROMPT, method)
    check_goes_on(prepared, PROMPT, method)


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_exception_in_prefill(llama: Bench, monkeypatch: pytest.MonkeyPatch, method: str, call: int) -> None:
    """A chunk that fails in its first layer; at the very first forward there is no cache to crop."""
    mlp: nn.Module = llama.engine.target.model.model.layers[0].mlp
    with monkeypatch.context() as patch:
        patch.setattr(mlp, "forward", raise_at(call, mlp.forward))
        with pytest.raises(PlantedError):
            list(llama.engine.generate(LONG, SETTINGS, method))
    assert all(
        layer.get_seq_length() == llama.engine.target.length for layer in llama.engine.target.cache.layers
    )
    expected = plain_reply(llama.target, LONG, SETTINGS)
    llama.oracle.future = LONG + expected
    assert reply(llama.engine, LONG, SETTINGS, method) == expected


@pytest.mark.parametrize("where", ["observe", "propose"])
@pytest.mark.parametrize("method", DRAFTERS)
def test_exception_in_a_drafter(
    prepared: Bench, monkeypatch: pytest.MonkeyPatch, method: str, where: str
) -> None:
    """A drafter that fails, also half-way through its own caching, must not take the text with it."""
    drafter = prepared.engine.drafters[method]
    with monkeypatch.context() as patch:
        patch.setattr(drafter, where, raise_at(3, getattr(drafter, where)))
        break_once(prepared, PROMPT, method)
    check_goes_on(prepared, PROMPT, method)


@pytest.mark.parametrize("call", [2, 7, 12])
def test_exception_inside_the_draft_model(
    prepared: Bench, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """The draft model's own layers disagree about their length."""
    mlp: nn.Module = prepared.engine.drafters["draft-model"].model.model.model.layers[0].mlp
    with monkeypatch.context() as patch:
        patch.setattr(mlp, "forward", raise_at(call, mlp.forward))
        break_once(prepared, PROMPT, "draft-model")
    check_goes_on(prepared, PROMPT, "draft-model")


@pytest.mark.parametrize("call", [2, 7, 12])
def test_exception_inside_the_head(prepared: Bench, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """The head fails at a catch-up or at a level of the tree."""
    head = prepared.engine.drafters["eagle2"].head
    with monkeypatch.context() as patch:
        patch.setattr(head, "forward", raise_at(call, head.forward))
        break_once(prepared, PROMPT, "eagle2")
    check_goes_on(prepared, PROMPT, "eagle2")


def test_exception_in_the_consumer(prepared: Bench) -> None:
    """An exception thrown into the generator at a yield commits what was yielded and nothing else."""
    generator = prepared.engine.generate(PROMPT, SETTINGS, "oracle")
    for _ in range(4):
        next(generator)
    tokens = list(prepared.engine.tokens)
    with pytest.raises(PlantedError):
        generator.throw(PlantedError())
    assert prepared.engine.tokens == tokens
    check_invariant(prepared.engine)
    check_goes_on(prepared, PROMPT, "oracle")


def test_unknown_method_leaves_the_engine_usable(prepared: Bench) -> None:
    """A typing error of the caller must not cost the conversation."""
    first = reply(prepared.engine, PROMPT, SETTINGS)
    with pytest.raises(KeyError):
        list(prepared.engine.generate(PROMPT, SETTINGS, "no such method"))
    check_invariant(prepared.engine)
    assert reply(prepared.engine, PROMPT + first, SETTINGS) == plain_reply(
        prepared.target, PROMPT + first, SETTINGS
    )
