"""What drafters propose. A bad proposal changes no text, so the equality suite cannot see it."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from engine import DraftModel, Engine, GenerationSettings, PromptLookup, Sampler, StockTarget
from engine.drafters.lookup import PromptLookup as Lookup
from tests.engine.conftest import Bench
from tests.engine.stubs import plain_reply, rounds
from tests.engine.tiny import make_model

SAMPLER = Sampler(GenerationSettings())
NOTHING = torch.empty(1, 1)


def propose(drafter: Lookup | DraftModel, tokens: list[int]) -> list[int]:
    """The chain that is proposed after `tokens`, root included."""
    with torch.inference_mode():
        drafter.observe(tokens, None, NOTHING, [0])
        tree = drafter.propose(tokens, SAMPLER)
    assert tree.host.parents == list(range(-1, len(tree) - 1))
    return tree.host.tokens


@pytest.mark.parametrize(
    ("tokens", "chain"),
    [
        ([1], [1]),
        ([1, 2, 3], [3]),
        ([1, 2, 1], [1, 2, 1]),
        ([7, 7], [7, 7]),
        ([1, 2, 3, 4, 5, 6, 1, 2], [2, 3, 4, 5]),
        ([1, 2, 9, 5, 2, 8, 1, 2], [2, 9, 5, 2]),  # two tokens of context beat the more recent one
        ([2, 9, 1, 2, 8, 3, 2], [2, 8, 3, 2]),  # of two occurrences the last
        ([5, 1, 2, 3, 9, 4, 1, 2, 3, 8, 0, 5, 1, 2, 3], [3, 8, 0, 5]),  # no more than three tokens of context
    ],
)
def test_prompt_lookup_copies_what_followed(tokens: list[int], chain: list[int]) -> None:
    """A match that begins one token off drafts nonsense; one with itself drafts nothing."""
    assert propose(PromptLookup(depth=3), tokens) == chain


def slow_lookup(tokens: list[int], depth: int, longest: int) -> list[int]:
    """The same by searching."""
    for n in range(min(longest, len(tokens)), 0, -1):
        for end in range(len(tokens) - 1, n - 1, -1):
            if tokens[end - n : end] == tokens[-n:]:
                return [tokens[-1], *tokens[end : end + depth]]
    return [tokens[-1]]


@pytest.mark.parametrize("seed", range(20))
def test_the_index_is_the_search(seed: int) -> None:
    """An index that keeps n-grams of an edited text, or misses those of tokens that arrived together."""
    rng = random.Random(seed)
    drafter, tokens = PromptLookup(depth=4), [rng.randrange(4)]
    for _ in range(60):
        if rng.random() < 0.25:
            length = rng.randrange(
                len(tokens)
            )  # as the engine rewinds: the first length + 1 tokens are shared
            drafter.rewind(length)
            tokens = tokens[: length + 1]
        tokens = tokens + [rng.randrange(4) for _ in range(rng.randrange(1, 5))]
        assert propose(drafter, tokens) == slow_lookup(tokens, 4, 3)


@pytest.mark.parametrize(("depth", "longest"), [(0, 3), (3, 0), (-1, 1)])
def test_prompt_lookup_sizes(depth: int, longest: int) -> None:
    """A drafter that never drafts."""
    with pytest.raises(ValueError, match=f"not {depth} and {longest}"):
        PromptLookup(depth, longest)


@pytest.fixture(scope="module")
def small() -> StockTarget:
    return StockTarget(make_model("llama", seed=4, context=40))


@pytest.mark.parametrize("seed", range(6))
def test_the_draft_model_drafts_its_own_greedy_text(small: StockTarget, seed: int) -> None:
    """Drafts that were refused and stay in the draft model's cache; a token that it never read."""
    rng = random.Random(seed)
    drafter, tokens = DraftModel(StockTarget(small.model), 97, depth=4), [rng.randrange(90)]
    for _ in range(12):
        if rng.random() < 0.25:
            length = rng.randrange(len(tokens))
            drafter.rewind(length)
            tokens = tokens[: length + 1]
        chain = propose(drafter, tokens)
        depth = min(4, 40 - len(tokens) + 1)
        settings = GenerationSettings(max_new_tokens=depth)
        expected = plain_reply(small, tokens, settings)[:4] if len(tokens) < 40 else chain[1:]
        assert chain[1 : len(expected) + 1] == expected
        assert len(chain) - 1 == max(0, min(4, 40 - len(tokens) + 1))
        tokens = tokens + chain[1 : rng.randrange(1, 4)] + rng.choices(range(90), k=rng.randrange(1, 4))
        tokens = tokens[:40]


def test_the_draft_model_at_the_end_of_its_context(small: StockTarget) -> None:
    """A conversation longer than the draft model's context: no drafts, and no failure either."""
    drafter = DraftModel(StockTarget(small.model), 97, depth=4)
    tokens = [(3 * i + i * i) % 90 for i in range(60)]
    assert len(propose(drafter, tokens[:38])) == 1 + 3
    assert len(propose(drafter, tokens[:40])) == 1 + 1
    assert propose(drafter, tokens[:41]) == [tokens[40]]
    assert propose(drafter, tokens) == [tokens[59]]


@pytest.mark.parametrize(
    "how",
    [{}, {"repetition_penalty": 1.5}, {"temperature": 1.0, "top_p": 0.9}, {"temperature": 0.7, "seed": 4}],
)
def test_a_draft_model_equal_to_the_target_is_always_right(llama: Bench, how: dict[str, Any]) -> None:
    """Drafting from the wrong end of the text, or with noise of its own: all but the text would suffer."""
    model = llama.target.model
    engine = Engine(StockTarget(model), {"draft-model": DraftModel(StockTarget(model), 97, depth=4)})
    seen = list(rounds(engine, [5, 6, 7], GenerationSettings(max_new_tokens=26, **how), "draft-model"))
    assert [len(r.new) for r in seen] == [1, 5, 5, 5, 5, 5]


def test_a_draft_model_needs_depth(small: StockTarget) -> None:
    """A drafter that never drafts."""
    with pytest.raises(ValueError, match="not 0"):
        DraftModel(small, 97, 0)
