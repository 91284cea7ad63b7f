"""Coupled drafting: a head that is right bets first on the very token that the target will draw."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from engine import Eagle2, GenerationSettings, Sampler
from engine.drafters.ranking import Ranking
from engine.sampling import gumbel
from engine.verify import accept
from tests.engine.markov import TableHead, after, make_table, propose

TABLE = make_table()
V = len(TABLE)
BOTH_FILTERS = pytest.param({"temperature": 1.0, "top_k": 6, "top_p": 0.7}, id="top-k-top-p")
SETTINGS = {
    "T1": {"temperature": 1.0},
    "T0.7": {"temperature": 0.7},
    "T1.6": {"temperature": 1.6},
    "top-k": {"temperature": 1.0, "top_k": 3},
    "top-k of one": {"temperature": 1.0, "top_k": 1},
    "top-p": {"temperature": 1.0, "top_p": 0.6},
    "tiny top-p": {"temperature": 1.3, "top_p": 1e-3},
    "min-p": {"temperature": 1.0, "min_p": 0.2},
    "top-k, min-p": {"temperature": 0.8, "top_k": 20, "min_p": 0.05},
    "top-p, min-p": {"temperature": 1.0, "top_p": 0.9, "min_p": 0.1},
}
CASES = [*(pytest.param(values, id=name) for name, values in SETTINGS.items()), BOTH_FILTERS]


def hits(settings: GenerationSettings, off: int = 0, table: Tensor = TABLE) -> list[bool]:
    """At depths 1 to 6 below several texts: is the best candidate what the target's sampler draws?

    `off` is what the drafter gets wrong of the position.
    """
    head, rng, found = TableHead(table), random.Random(5), []
    for _ in range(12):
        prefix = [rng.randrange(len(table)) for _ in range(rng.randrange(1, 9))]
        ranking = Ranking(head, Sampler(settings), len(prefix) + off)
        target = Sampler(settings)  # another one: rows of noise that were kept must not help
        for depth in range(1, 7):
            _, ids = ranking.best(after(table, prefix[-1]), depth, 3)
            drawn = target.pick(table[prefix[-1]], prefix)
            found.append(ids[0, 0].item() == drawn)
            prefix.append(drawn)
    return found


@pytest.mark.parametrize("values", CASES)
def test_the_best_candidate_is_what_will_be_drawn(values: dict[str, float]) -> None:
    """Noise of another position, filters that keep other tokens: fewer accepted, and the text still right."""
    for seed in (0, 7):
        assert all(hits(GenerationSettings(**values, seed=seed)))


@pytest.mark.parametrize("off", [-1, 1])
@pytest.mark.parametrize("name", ["T1", "T0.7", "top-p"])
def test_another_position_shows(name: str, off: int) -> None:
    """The test above proves nothing if the noise of a neighbour does as well."""
    found = hits(GenerationSettings(**SETTINGS[name]), off)
    assert sum(found) < 0.8 * len(found)


@pytest.mark.parametrize("values", CASES)
def test_what_is_filtered_comes_last(values: dict[str, float]) -> None:
    """A token that the target cannot draw, proposed before one that it can."""
    settings = GenerationSettings(**values)
    ranking = Ranking(TableHead(TABLE), Sampler(settings), 4)
    for token in range(V):
        log_p, ids = ranking.best(after(TABLE, token), 2, V)
        left = Sampler(settings).scores(TABLE[token], [1, 2, token]).isfinite().nonzero().flatten()
        assert set(ids[0, : len(left)].tolist()) == set(left.tolist())
        assert log_p.isfinite().all()  # differences of values must be numbers
        assert torch.equal(log_p[0], log_p[0].sort(descending=True).values)
        assert log_p[0, : len(left)].exp().sum() == pytest.approx(1, abs=1e-4)


def test_a_wide_nucleus_is_kept_whole() -> None:
    """A flat distribution at top-p, whose nucleus is larger than what the drafter looks at."""
    table = make_table(300, spread=0.3)
    assert all(hits(GenerationSettings(temperature=1.0, top_p=0.9), table=table))


@pytest.mark.parametrize("values", [{}, *SETTINGS.values()], ids=["T0", *SETTINGS])
def test_a_chain_of_a_perfect_head_is_accepted_whole(values: dict[str, float]) -> None:
    """Depths counted from another level in the tree than in the ranking."""
    settings = GenerationSettings(**values, seed=3)
    for start in range(12):
        tokens = [*range(1 + start % 3), start]
        tree = propose(Eagle2(TableHead(TABLE), nodes=5, depth=5, beam=1), tokens, Sampler(settings))
        path, _ = accept(tree, TABLE[tree.tokens], tokens, Sampler(settings))
        assert path == [0, 1, 2, 3, 4, 5]


def test_another_seed_is_another_tree() -> None:
    """Noise that the drafter makes itself, or draws of the drafter's own."""
    whole = 0
    for start in range(12):
        tree = propose(
            Eagle2(TableHead(TABLE), 5, 5, 1), [1, start], Sampler(GenerationSettings(temperature=1.0))
        )
        other = Sampler(GenerationSettings(temperature=1.0, seed=1))
        whole += len(accept(tree, TABLE[tree.tokens], [1, start], other)[0]) == 6
    assert whole <= 2


def test_a_draft_vocabulary_uses_the_noise_of_target_ids() -> None:
    """Noise by draft ids: the proposals would be sound and hardly ever what is drawn."""
    ids = torch.tensor([1, 4, 5, 9, 12, 13, 20, 22, 27, 30])
    settings = GenerationSettings(temperature=1.0, seed=11)
    head, possible, by_draft_id = TableHead(TABLE, ids), 0, 0
    for last in range(V):
        prefix = [3, last]
        noise = gumbel(settings.seed, len(prefix), V)
        best = (TABLE[last].log_softmax(-1) + noise)[ids].argmax()
        found = Ranking(head, Sampler(settings), 2).best(after(TABLE, last), 1, 4)[1][0]
        assert found[0] == ids[best]
        assert set(found.tolist()) <= set(ids.tolist())
        drawn = Sampler(settings).pick(TABLE[last], prefix)
        if drawn in ids.tolist():
            possible += 1
            assert found[0] == drawn
            by_draft_id += bool(ids[(TABLE[last][ids] + noise[: len(ids)]).argmax()] == drawn)
    assert possible >= 8
    assert by_draft_id < possible  # the control: that error would show


@pytest.mark.parametrize("vocabulary", [None, torch.tensor([1, 4, 5, 9, 12, 13, 20, 22, 27, 30])])
def test_greedy_candidates_are_the_heads_own(
    vocabulary: Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise or a temperature where the target uses none; the softmax of the whole vocabulary over a part."""
    monkeypatch.setattr(Sampler, "noise", lambda *_: pytest.fail("nothing is drawn"))
    allowed = torch.arange(V) if vocabulary is None else vocabulary
    ranking = Ranking(TableHead(TABLE, vocabulary), Sampler(GenerationSettings(seed=4)), 9)
    hidden = torch.cat([after(TABLE, token) for token in (0, 8, 30)])
    values, ids = ranking.best(hidden, 3, 5)
    expected = TABLE[[0, 8, 30]][:, allowed].log_softmax(-1).topk(5)
    torch.testing.assert_close(values, expected.values)
    assert torch.equal(ids, allowed[expected.indices])


def test_the_penalty_alone_leaves_greedy_drafting_as_it_is() -> None:
    """A penalty taken for sampling: at temperature 0 there is no noise to couple with."""
    plain, penalised = (
        Ranking(TableHead(TABLE), Sampler(settings), 2).best(after(TABLE, 5), 1, 4)
        for settings in (GenerationSettings(), GenerationSettings(repetition_penalty=1.5))
    )
    assert torch.equal(plain[1], penalised[1])
