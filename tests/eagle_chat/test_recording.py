"""From the engine's rounds to records: what is shown must be what happened."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from transformers import AutoTokenizer

from eagle_chat.layout.draw import draw_of
from eagle_chat.layout.states import own_token
from eagle_chat.recording import MOST_DROPPED, record_round
from eagle_chat.records import RoundRecord
from eagle_chat.text import Vocabulary
from engine import (
    DraftModel,
    Eagle2,
    Engine,
    GenerationSettings,
    PromptLookup,
    Round,
    StockTarget,
    load_eagle_head,
    load_model,
    pick_device,
    pick_dtype,
)

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPT = [40, 41, 42, 43, 40, 41]
Decode = Callable[..., list[tuple[Round, RoundRecord]]]


@pytest.fixture(scope="module")
def decode(chat_model, chat_head) -> Decode:
    """Rounds of the tiny model, each with the record made of it while it was valid."""
    device = pick_device("cpu")
    load = lambda: StockTarget(load_model(chat_model, pick_dtype("fp32", device), device))  # noqa: E731
    target = load()
    heads = [load_eagle_head(chat_head, target, "tiny") for _ in range(2)]  # each has a cache
    drafters = {
        "eagle2": Eagle2(heads[0], nodes=12, depth=4, beam=5),
        "narrow": Eagle2(heads[1], nodes=3, depth=4, beam=3),  # drops nodes whose parents it drops
        "pld": PromptLookup(4),
        "draft-model": DraftModel(load(), target.vocabulary, 5),  # the target itself: always right
    }
    engine = Engine(target, drafters)
    vocabulary = Vocabulary(AutoTokenizer.from_pretrained(chat_model))

    def decode(method: str, watched: bool = True, **settings) -> list[tuple[Round, RoundRecord]]:
        engine.reset()
        events = engine.generate(PROMPT, GenerationSettings(**settings), method)
        return [(step, record_round(step, vocabulary, watched)) for step in events if isinstance(step, Round)]

    return decode


def check_commit(record: RoundRecord) -> None:
    """Path, bonus and new tokens tell the same story."""
    tree = record.tree
    assert record.path[0] == 0
    assert len(record.path) == record.accepted + 1
    assert all(
        tree.parents[node] == parent for parent, node in zip(record.path, record.path[1:], strict=False)
    )
    accepted = tuple(tree.tokens[node] for node in record.path[1:])
    assert record.new[: record.accepted] == accepted
    assert record.bonus in (None, len(record.new) - 1)
    assert len(record.texts) == len(record.new)


@pytest.mark.parametrize("method", ["none", "eagle2", "pld", "draft-model"])
def test_path_bonus_and_new_tokens(decode, method):
    """Catches an index off by one between the tree that was verified and the tokens committed."""
    done = decode(method, max_new_tokens=40)
    assert len(done) > 1
    for step, record in done:
        check_commit(record)
        assert record.new == tuple(step.new)
        if record.bonus is not None:
            assert record.new[record.bonus] == step.bonus
    assert done[0][1].bonus == 0
    assert done[0][1].tree.parents == (-1,)


@pytest.mark.parametrize("limit", range(2, 14))
def test_cut_at_the_limit(decode, limit):
    """Catches a bonus or accepted nodes that are reported although the limit cut them off."""
    records = [record for _, record in decode("draft-model", max_new_tokens=limit)]
    for record in records:
        check_commit(record)
    assert sum(len(record.new) for record in records) == limit


def test_cut_at_a_stop_token(decode):
    """Catches tokens after the stop token in `path`, `new` or the bonus."""
    tokens = [token for _, record in decode("none", max_new_tokens=30) for token in record.new]
    bonuses = set()
    for end in dict.fromkeys(tokens[1:]):
        records = [
            record for _, record in decode("draft-model", max_new_tokens=30, stop_ids=frozenset({end}))
        ]
        for record in records:
            check_commit(record)
        assert [token for record in records for token in record.new] == tokens[: tokens.index(end) + 1]
        bonuses.add(records[-1].bonus is None)
    assert bonuses == {True, False}  # the stop token was met both as a drafted node and as the bonus


def test_values_are_log_probabilities_that_fall(decode):
    """Catches probabilities where logs are promised, and a root that is not certain."""
    for _, record in decode("eagle2", max_new_tokens=20)[1:]:
        values, parents = record.tree.values, record.tree.parents
        assert values is not None
        assert values[0] == 0.0
        assert all(values[node] <= values[parents[node]] + 1e-6 for node in range(1, len(values)))
    for _, record in decode("pld", max_new_tokens=8)[1:]:
        assert record.tree.values is None


def test_target_probabilities(decode):
    """Catches probabilities of the wrong node: greedy decoding accepts the likeliest child, if any."""
    for _, record in decode("eagle2", max_new_tokens=20)[1:]:
        target = record.tree.target
        assert target is not None
        assert target[0] == 1.0
        for children in record.tree.children():
            assert sum(target[child] for child in children) <= 1 + 1e-5
            taken = [child for child in children if child in record.path]
            if taken:
                assert target[taken[0]] == max(target[child] for child in children)
        assert record.bonus is None or 0 < (record.bonus_target or 0) <= 1


@pytest.mark.parametrize("method", ["none", "eagle2"])
def test_the_recorded_noise_decides(decode, method):
    """Noise of another position or token: the token that was taken would not have the highest score."""
    decided = 0
    for _, record in decode(method, max_new_tokens=60, temperature=1.3, seed=5):
        tree = record.tree
        for node in range(1, len(tree.tokens)):
            draw = draw_of(record, node)
            asked = tree.parents[node] in record.path
            decided_here = record.bonus is not None or tree.parents[node] != record.path[-1]
            assert (draw is not None) == (asked and decided_here)
            if draw is None:
                continue
            place = record.path.index(tree.parents[node]) + 1
            winner = record.path[place] if place < len(record.path) else own_token(record)
            assert draw_of(record, winner).score >= draw.score
            decided += winner != node
        if record.bonus is not None:
            assert record.bonus_noise is not None
    assert decided or method == "none"
    assert all(record.tree.noise is record.bonus_noise is None for _, record in decode(method))


@pytest.mark.parametrize(("method", "drawn"), [("eagle2", (5, 25, 25, 25)), ("narrow", (3, 9, 9, 9))])
def test_dropped_candidates(decode, method, drawn):
    """Catches a pruned candidate hung under the wrong node, with a wrong confidence, or kept as well."""
    seen, nested = 0, 0
    for step, record in decode(method, max_new_tokens=20)[1:]:
        tree, values = record.tree, record.tree.values
        if step.tree.growth is None:  # clipped near the limit
            continue
        assert values is not None
        above = [*values, *(node.value for node in tree.dropped)]
        for index, node in enumerate(tree.dropped, start=len(tree.tokens)):
            assert 0 <= node.parent < index
            assert node.confidence == pytest.approx(math.exp(node.value - above[node.parent]), rel=1e-4)
            assert 0 < node.confidence <= 1 + 1e-6
            siblings = [tree.tokens[child] for child in range(1, len(tree.tokens))
                        if tree.parents[child] == node.parent]  # fmt: skip
            assert node.token not in siblings
        assert len(tree.dropped) == MOST_DROPPED
        assert tree.drawn == drawn
        assert tree.cutoff == min(values[1:])
        assert all(node.value <= tree.cutoff for node in tree.dropped)
        seen += 1
        nested += any(node.parent >= len(tree.tokens) for node in tree.dropped)
    assert seen > 2
    assert nested or method == "eagle2"


def test_nobody_watching_costs_nothing(decode):
    """Catches target probabilities, which are a full softmax a node, computed for a hidden panel."""
    for step, record in decode("eagle2", watched=False, max_new_tokens=12)[1:]:
        check_commit(record)
        assert record.tree.target is None
        assert record.bonus_target is None
        assert record.tree.dropped == ()
        assert record.tree.values is not None
        assert len(record.tree.tokens) == len(step.tree)


def test_times_are_milliseconds(decode):
    """Catches seconds in a field of milliseconds, and a phase that is lost."""
    for step, record in decode("eagle2", max_new_tokens=8):
        timing = step.timing
        assert record.ms == pytest.approx(1000 * (timing.draft + timing.verify + timing.other))
        assert record.draft_ms == pytest.approx(1000 * timing.draft)
