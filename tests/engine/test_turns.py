"""A conversation's caches must never show: every turn equals the same prompt on a fresh engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from engine import Engine, GenerationSettings, Prefill, Round, StockTarget
from tests.engine.conftest import DRAFTERS, Bench
from tests.engine.stubs import check_invariant, plain_reply, reply, rounds

METHODS = ("none", *DRAFTERS)
N = 16  # new tokens of a turn
GREEDY = GenerationSettings(max_new_tokens=N)
SAMPLED = GenerationSettings(temperature=0.8, top_p=0.95, repetition_penalty=1.1, max_new_tokens=N, seed=77)
FIRST = [8, 2, 61, 30, 4, 4, 19]
LONG = [(7 * i + i * i) % 90 for i in range(700)]  # more than one prefill chunk


@pytest.fixture(params=[GREEDY, SAMPLED], ids=["greedy", "sampled"])
def settings(request: pytest.FixtureRequest) -> GenerationSettings:
    return request.param


def turn(bench: Bench, prompt: list[int], settings: GenerationSettings, method: str) -> list[int]:
    """One reply of the bench's engine, which must be that of a fresh one."""
    expected = plain_reply(bench.target, prompt, settings)
    bench.oracle.future = prompt + expected
    found = reply(bench.engine, prompt, settings, method)
    assert found == expected
    return found


@pytest.mark.parametrize("method", METHODS)
def test_a_growing_conversation(bench: Bench, settings: GenerationSettings, method: str) -> None:
    """A pending token that is never cached, or cached twice, at the start of the next turn."""
    prompt = FIRST
    for user in ([5, 6], [9], [1, 2, 3]):
        prompt = prompt + turn(bench, prompt, settings, method) + user


@pytest.mark.parametrize("method", METHODS)
def test_going_on_without_a_user_token(llama: Bench, settings: GenerationSettings, method: str) -> None:
    """Prompt equal to everything committed: the last logits must be computed again."""
    prompt = FIRST
    for _ in range(3):
        prompt = prompt + turn(llama, prompt, settings, method)
    straight = GenerationSettings(**{**settings.__dict__, "max_new_tokens": 3 * N})
    assert prompt == FIRST + plain_reply(llama.target, FIRST, straight)


EDITS: dict[str, Callable[[list[int]], list[int]]] = {
    "regenerated": lambda tokens: FIRST,
    "cut inside the reply": lambda tokens: tokens[:15],
    "last token changed": lambda tokens: [*tokens[:-1], (tokens[-1] + 1) % 90],
    "middle changed": lambda tokens: [*tokens[:12], (tokens[12] + 1) % 90, *tokens[13:]],
    "first token changed": lambda tokens: [(tokens[0] + 1) % 90, *tokens[1:]],
    "one token": lambda tokens: tokens[:1],
    "first of one prompt token changed": lambda tokens: [(tokens[0] + 1) % 90],
    "longer edit": lambda tokens: [*tokens[:10], 3, 3, 3, *tokens],
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("method", METHODS)
def test_edited_prompts(llama: Bench, settings: GenerationSettings, method: str, edit: str) -> None:
    """Rows of the old text that survive in the target's, the head's or the n-gram index's memory."""
    prompt = FIRST + turn(llama, FIRST, settings, method)
    edited = EDITS[edit](prompt)
    turn(llama, edited, settings, method)
    turn(llama, prompt, settings, method)


@pytest.mark.parametrize("method", METHODS)
def test_closed_between_rounds(bench: Bench, settings: GenerationSettings, method: str) -> None:
    """A round half committed when the consumer walks away; the rest must come out as if it had not."""
    expected = plain_reply(bench.target, FIRST, settings)
    for taken in (1, 2, 5):
        bench.engine.reset()
        bench.oracle.future = FIRST + expected
        generator = bench.engine.generate(FIRST, settings, method)
        seen = 0
        for event in generator:
            seen += isinstance(event, Round)
            if seen == taken:
                break
        generator.close()
        check_invariant(bench.engine)
        so_far = list(bench.engine.tokens)
        assert so_far == (FIRST + expected)[: len(so_far)]
        if len(so_far) < len(FIRST) + N:
            rest = GenerationSettings(**{**settings.__dict__, "max_new_tokens": len(FIRST) + N - len(so_far)})
            assert so_far + reply(bench.engine, so_far, rest, method) == FIRST + expected
        turn(bench, [*so_far, 5, 6], settings, method)


@pytest.mark.parametrize("method", METHODS)
def test_closed_during_prefill(llama: Bench, settings: GenerationSettings, method: str) -> None:
    """A prompt of which only the first chunk was read must not count as read."""
    generator = llama.engine.generate(LONG, settings, method)
    event = next(generator)
    assert isinstance(event, Prefill)
    assert event.done < event.total
    generator.close()
    check_invariant(llama.engine)
    turn(llama, LONG, settings, method)
    turn(llama, [*LONG[:600], 1, 2], settings, method)


def test_switching_methods_in_mid_conversation(bench: Bench, settings: GenerationSettings) -> None:
    """Tokens that one drafter never saw, because another one made them."""
    prompt = FIRST
    for method in (*METHODS, "eagle2", "none", "draft-model", "pld", "eagle2"):
        prompt = prompt + turn(bench, prompt, settings, method) + [len(prompt) % 90]


def test_switching_methods_over_edits(bench: Bench, settings: GenerationSettings) -> None:
    """A drafter at rest must forget what was edited away while another one was in use."""
    prompt = FIRST + turn(bench, FIRST, settings, "eagle2")
    prompt += turn(bench, prompt, settings, "draft-model")
    prompt += turn(bench, prompt, settings, "pld")
    edited = [*prompt[:20], 1, 2, 3]
    edited += turn(bench, edited, settings, "none")
    for method in DRAFTERS:
        turn(bench, edited, settings, method)
        turn(bench, [*edited[:30], 9], settings, "none")


def test_switched_on_late_a_head_drafts_as_if_it_had_always_been_on(llama: Bench) -> None:
    """Features that were not kept while no head was in use: the text would be right and the drafts bad."""
    trees = []
    for method in ("none", "eagle2"):
        llama.engine.reset()
        prompt = FIRST + reply(llama.engine, FIRST, GREEDY, method)
        trees.append([r.tree.host for r in rounds(llama.engine, [*prompt, 5], GREEDY, "eagle2")])
    assert trees[0] == trees[1]


@pytest.mark.parametrize("method", METHODS)
def test_features_are_those_of_the_text(bench: Bench, settings: GenerationSettings, method: str) -> None:
    """Features of refused nodes or of edited text: the drafts would be bad and the text right, so unseen."""
    bench.oracle.future = FIRST + plain_reply(bench.target, FIRST, settings)
    for prompt in (FIRST, [*FIRST[:4], 5, 6, 7, 8], FIRST):
        for _ in rounds(bench.engine, prompt, settings, method):
            known = bench.engine.tokens[:-1]
            with torch.inference_mode():
                outputs = bench.target.model(
                    input_ids=torch.tensor([known]), use_cache=False, output_hidden_states=True
                )
            stored = bench.engine.features.rows(len(known))
            torch.testing.assert_close(stored, outputs.hidden_states[-1][0], rtol=1e-3, atol=1e-3)


def test_one_engine_for_several_drafters_is_as_good_as_one_each(llama: Bench) -> None:
    """State that drafters share by mistake."""
    alone = Engine(StockTarget(llama.target.model), {"pld": llama.engine.drafters["pld"]})
    assert alone.features is None
    assert reply(alone, FIRST, GREEDY, "pld") == turn(llama, FIRST, GREEDY, "eagle2")
    llama.engine.reset()
