"""Random conversations in a small context: turns, edits, cancelled replies, stops and settings at their ends.

What one test each looks at elsewhere comes together here, for every drafter, with some more ablations and
fixed trees.
"""

from __future__ import annotations

import random

import pytest

from engine import Ablation, Drafter, Eagle, Eagle2, GenerationSettings, Prefill, StockTarget
from engine.drafters.eagle import CHAIN
from tests.engine.conftest import Bench, make_benches
from tests.engine.stubs import check_invariant, plain_reply
from tests.engine.tiny import MODELS

CONTEXT = 56
SMALLEST_VOCABULARY = 97


@pytest.fixture(scope="module")
def short_benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    made = make_benches(tmp_path_factory, StockTarget, context=CONTEXT)
    for bench in made.values():
        eagle = bench.engine.drafters["eagle2"]
        assert isinstance(eagle, Eagle2)
        more: dict[str, Drafter] = {
            "eagle2-no-value": Eagle2(eagle.head, 20, 4, 6, ablation=Ablation(value=False)),
            "eagle2-no-rerank": Eagle2(eagle.head, 20, 4, 6, ablation=Ablation(rerank=False)),
            "eagle-chain": Eagle(eagle.head, CHAIN),
            "eagle-paths": Eagle(eagle.head, ((0,), (3,), (0, 2), (3, 0), (3, 1), (3, 1, 0))),
        }
        bench.engine.add(more)
    return made


def random_settings(rng: random.Random) -> GenerationSettings:
    """Also what filters all but one token away, or nothing; few tokens and more than there is room for."""
    stops = rng.sample(range(SMALLEST_VOCABULARY), rng.choice((0, 0, 10)))
    return GenerationSettings(
        temperature=rng.choice((0.0, 0.001, 0.7, 1.0, 1.0, 100.0)),
        top_k=rng.choice((0, 0, 0, 1, 3, 1000)),
        top_p=rng.choice((1.0, 1.0, 1e-6, 0.5, 0.999)),
        min_p=rng.choice((0.0, 0.0, 0.3, 1.0)),
        repetition_penalty=rng.choice((1.0, 1.0, 0.5, 1.3, 5.0)),
        max_new_tokens=rng.choice((1, 2, 5, 20, 1000)),
        stop_ids=frozenset(stops),
        seed=rng.choice((0, 2**63 - 1, rng.getrandbits(62))),
    )


def edited(tokens: list[int], rng: random.Random) -> list[int]:
    """A prompt that shares some of what was said; room for a token is left."""
    some = [rng.randrange(SMALLEST_VOCABULARY) for _ in range(rng.randrange(1, 5))]
    place = rng.randrange(1, len(tokens) + 1) if tokens else 0
    prompt = rng.choice((some, [*tokens, *some], tokens[:place], [*tokens[:place], *some])) or some
    return prompt if len(prompt) < CONTEXT else prompt[: rng.choice((CONTEXT - 1, place, CONTEXT // 2))]


@pytest.mark.parametrize("name", MODELS)
def test_random_sessions(short_benches: dict[str, Bench], name: str) -> None:
    """What only a certain order shows: a limit after a cancelled reply, a filter after an edit."""
    bench, rng = short_benches[name], random.Random(name)
    ended = set()
    methods = [*bench.engine.drafters]
    for method in rng.sample(methods, len(methods)):
        for _ in range(2):
            prompt, settings = edited(bench.engine.tokens, rng), random_settings(rng)
            expected = plain_reply(bench.target, prompt, settings)
            bench.oracle.future = prompt + expected
            found, patience = [], rng.choice((1, 3, 1000, 1000))
            events = bench.engine.generate(prompt, settings, method)
            for event in events:
                if isinstance(event, Prefill):
                    continue
                check_invariant(bench.engine)
                assert all(0 <= p <= 1 + 1e-5 for p in event.probabilities())
                found += event.new
                patience -= 1
                if event.stopped_by or not patience:
                    events.close()
                    ended.add(event.stopped_by)
            check_invariant(bench.engine)
            assert bench.engine.tokens == prompt + found
            assert found == (expected if event.stopped_by else expected[: len(found)])
    assert ended == {None, "stop_token", "max_new_tokens", "context"}
