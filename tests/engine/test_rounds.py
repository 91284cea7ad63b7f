"""What a consumer sees of a reply: progress, numbering, probabilities and the clock."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from engine import GenerationSettings, Prefill, Round, Sampler
from tests.engine.conftest import Bench
from tests.engine.reference import processed, softmax
from tests.engine.stubs import plain_reply, reply, rounds

PROMPT = [8, 2, 61, 30, 4, 4, 19]


def test_prefill_reports_progress(llama: Bench) -> None:
    """A long prompt that shows nothing, or progress that starts anew for the part that was reused."""
    prompt = [(7 * i + i * i) % 90 for i in range(1100)]
    settings = GenerationSettings(max_new_tokens=2)
    first = [(e.done, e.total) for e in llama.engine.generate(prompt, settings) if isinstance(e, Prefill)]
    assert first == [(512, 1100), (1024, 1100), (1100, 1100)]
    longer = [*llama.engine.tokens, *prompt[:600]]
    second = [(e.done, e.total) for e in llama.engine.generate(longer, settings) if isinstance(e, Prefill)]
    assert second == [(1101 + 512, 1702), (1702, 1702)]


def test_what_is_shared_is_not_read_again(llama: Bench) -> None:
    """A prefix that is thrown away: the text would be right and every turn as slow as the whole chat."""
    read = []
    extend = llama.engine.target.extend
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            llama.engine.target, "extend", lambda tokens: read.append(list(tokens)) or extend(tokens)
        )
        settings = GenerationSettings(max_new_tokens=5)
        reply(llama.engine, PROMPT, settings)
        reply(llama.engine, [*llama.engine.tokens, 1, 2], settings)
        reply(llama.engine, PROMPT, settings)
    assert [len(tokens) for tokens in read] == [7, 3, 1]


def test_rounds_are_numbered_and_placed(llama: Bench) -> None:
    """Indices and starts that a trace is rebuilt from."""
    llama.oracle.future = PROMPT + plain_reply(llama.target, PROMPT, GenerationSettings(max_new_tokens=30))
    seen = list(rounds(llama.engine, PROMPT, GenerationSettings(max_new_tokens=30), "oracle"))
    assert [r.index for r in seen] == list(range(len(seen)))
    assert seen[0].path == [0]
    assert seen[0].tree.host == ([PROMPT[-1]], [-1])
    at = len(PROMPT)
    for r in seen:
        assert r.start == at
        assert r.tree.host.tokens[0] == llama.engine.tokens[at - 1]
        assert llama.engine.tokens[at : at + len(r.new)] == r.new
        assert all(r.tree.host.parents[b] == a for a, b in zip(r.path, r.path[1:], strict=False))
        at += len(r.new)
    assert at == len(PROMPT) + 30


SHOWN = [
    GenerationSettings(max_new_tokens=20),
    GenerationSettings(temperature=0.8, top_p=0.9, repetition_penalty=1.3, max_new_tokens=20, seed=3),
]


@pytest.mark.parametrize("settings", SHOWN, ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", ["none", "eagle2", "noise", "oracle"])
def test_shown_probabilities_are_those_of_each_path(
    llama: Bench, settings: GenerationSettings, method: str
) -> None:
    """p of another node, of another prefix, or from before the filters."""
    model = llama.target.model

    def p_after(prefix: list[int]) -> np.ndarray:
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([prefix]), use_cache=False).logits[0, -1].numpy()
        greedy = settings.temperature == 0
        return softmax(logits.astype(np.float64) if greedy else processed(logits, prefix, settings))

    llama.oracle.future = PROMPT + plain_reply(llama.target, PROMPT, settings)
    for r in rounds(llama.engine, PROMPT, settings, method):
        nodes, parents = r.tree.host
        before = list(llama.engine.tokens[: r.start])
        prefixes = [before]
        for node in range(1, len(nodes)):
            prefixes.append([*prefixes[parents[node]], nodes[node]])
        expected = [1.0] + [p_after(prefixes[parents[n]])[nodes[n]] for n in range(1, len(nodes))]
        np.testing.assert_allclose(r.probabilities(), expected, atol=2e-5)
        if r.bonus is not None:
            assert r.bonus_probability() == pytest.approx(
                p_after(llama.engine.tokens[:-1])[r.bonus], abs=2e-5
            )


def test_probabilities_are_computed_on_request_only(llama: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work for a panel that nobody looks at."""
    monkeypatch.setattr(Sampler, "probability", lambda *args: pytest.fail("nobody asked"))
    assert len(reply(llama.engine, PROMPT, SHOWN[1], "noise")) == 20


@pytest.mark.parametrize("method", ["none", "eagle2"])
def test_the_clock_stands_still_while_the_consumer_works(llama: Bench, method: str) -> None:
    """Painting that is counted as decoding. Engine and sleeps cannot overlap, however slow the machine is."""
    slept, timings = 0.0, []
    began = time.perf_counter()
    prompt = [(7 * i + i * i) % 90 for i in range(600)]
    for event in llama.engine.generate(prompt, GenerationSettings(max_new_tokens=10), method):
        asleep = time.perf_counter()
        time.sleep(0.02)
        slept += time.perf_counter() - asleep
        if isinstance(event, Round):
            timings.append(event.timing)
    total = time.perf_counter() - began
    assert all(min(t.draft, t.verify, t.other) >= 0 for t in timings)
    engine = sum(t.draft + t.verify + t.other for t in timings)
    assert 0 < engine <= total - slept
    assert (timings[0].draft, timings[0].verify) == (0, 0)
    assert all(t.verify > 0 for t in timings[1:])
