"""Trees sized by cost: the choice is the best there is."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from engine import Costs, DraftTree, Eagle2, GenerationSettings, Sampler, Sizing, TreeSizing
from engine.layer import Cache
from tests.engine.markov import TableHead, make_table, observe

SAMPLER = Sampler(GenerationSettings())
COSTS: dict[str, dict[int, float]] = {
    "free rows": {1: 1.0, 61: 1.0},
    "linear": {1: 1.0, 61: 7.0},
    "expensive rows": {1: 1.0, 61: 61.0},
    "a step": {1: 1.0, 8: 1.1, 9: 2.0, 61: 2.5},
    "two steps": {1: 1.0, 4: 1.0, 5: 1.4, 16: 1.4, 17: 3.0, 61: 20.0},
    "no rows": {1: 1.0, 2: 100.0, 61: 200.0},
}


class Clock:
    """`time.perf_counter`, moved by hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        patch.setattr("time.perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def falling(rng: random.Random, count: int) -> Tensor:
    """Log-confidences [count], best first, whose sum is below 1."""
    shares = sorted((rng.random() ** 3 for _ in range(count)), reverse=True)
    return (torch.tensor(shares) / (sum(shares) + rng.random())).log()


def grow(sizing: TreeSizing, levels: int, rng: random.Random, clock: Clock) -> tuple[Sizing, list[float]]:
    """A round of so many levels, whether they are worth it or not; the choice, and the values of all drawn.

    The first level takes 0.3 seconds and each other one 0.1.
    """
    values = falling(rng, 4)
    growing, drawn = sizing.begin(values, 0.3), [values]
    for _ in range(levels - 1):
        growing.is_level_worth_it(values)
        clock.now += 0.1
        confidences = torch.stack([falling(rng, 4) for _ in range(4)])
        candidates = (values[:, None] + confidences).flatten()
        growing.drew(confidences, candidates)
        drawn.append(candidates)
        values = candidates.sort(descending=True).values[:4]
    return growing.choose(), torch.cat(drawn).exp().tolist()


@pytest.mark.parametrize("nodes", [3, 60])
@pytest.mark.parametrize("kind", COSTS)
def test_the_choice_is_the_best_of_all_sizes(kind: str, nodes: int, clock: Clock) -> None:
    """Against brute force: a hill at which the search stops, the root's row forgotten, levels for free."""
    costs = Costs(COSTS[kind])
    sizing = TreeSizing(costs, nodes)
    grow(sizing, 2, random.Random(0), clock)  # what a level takes is not known before one was drawn
    for seed in range(30):
        levels = 1 + seed % 4
        chosen, drawn = grow(sizing, levels, random.Random(seed), clock)
        best_first = sorted(drawn, reverse=True)
        drafting = 0.3 + 0.1 * (levels - 1)
        speeds = [
            (1 + sum(best_first[:n])) / (drafting + costs.verify(n + 1))
            for n in range(min(nodes, len(drawn)) + 1)
        ]
        assert chosen.nodes <= nodes
        assert chosen.levels == levels
        assert chosen.expected == pytest.approx(1 + sum(best_first[: chosen.nodes]), rel=1e-4)
        assert chosen.seconds == pytest.approx(drafting + costs.verify(chosen.nodes + 1), rel=1e-4)
        assert chosen.plain == pytest.approx(costs.verify(1))
        assert speeds[chosen.nodes] == pytest.approx(max(speeds), rel=1e-4)


def test_sizes_follow_the_costs(clock: Clock) -> None:
    """A choice that is right on paper and ignores what it is told: nothing, a few, all."""
    chosen = {}
    for kind, rows in COSTS.items():
        chosen[kind] = grow(TreeSizing(Costs(rows), 20), 2, random.Random(1), clock)[0].nodes
    assert chosen["no rows"] == 0
    assert chosen["free rows"] == 20
    assert chosen["expensive rows"] < chosen["linear"] < 20
    assert chosen["a step"] in (7, 20)


def test_a_factor_on_all_costs_counts_against_the_drafting(clock: Clock) -> None:
    """Costs that are followed and then compared with drafting as it was measured at load."""
    costs = Costs(COSTS["linear"])
    for _ in range(300):
        costs.saw(11, 0.02)
    chosen, _ = grow(TreeSizing(costs, 60), 3, random.Random(1), clock)
    assert chosen.plain == pytest.approx(0.01, rel=0.01)
    assert chosen.seconds < chosen.expected  # 0.5 seconds of drafting are what the time goes to now
    assert chosen.nodes > grow(TreeSizing(Costs(COSTS["linear"]), 60), 3, random.Random(1), clock)[0].nodes


class SlowHead(TableHead):
    """Each level takes `seconds` on the clock, a catch-up nothing."""

    def __init__(self, table: Tensor, clock: Clock) -> None:
        super().__init__(table)
        self.clock = clock
        self.seconds = 0.0

    def forward(
        self, tokens: Tensor, features: Tensor, positions: Tensor, cache: Cache, visible: Tensor
    ) -> Tensor:
        if len(tokens) > 1 and positions[0] == positions[-1]:
            self.clock.now += self.seconds
        return super().forward(tokens, features, positions, cache, visible)


def sure_table(vocabulary: int = 31) -> Tensor:
    """Each token is followed by the next one, at 0.9 or so."""
    return 6.0 * torch.eye(vocabulary).roll(1, 1)


def sized(head: TableHead, rows: dict[int, float], nodes: int = 20, depth: int = 6) -> Eagle2:
    return Eagle2(head, nodes, depth, beam=4, sizing=TreeSizing(Costs(rows), nodes))


def run_rounds(drafter: Eagle2, count: int, accepted: int = 10) -> list[DraftTree]:
    """Trees below a text of which the first child is accepted, and its first child, and so on."""
    tokens, trees, rows, path = [1, 2], [], 0, [0]
    for _ in range(count):
        observe(drafter, tokens, rows, path)
        tree = drafter.propose(tokens, SAMPLER)
        path, children = [0], tree.host.parents
        while len(path) <= accepted and path[-1] in children[1:]:
            path.append(children.index(path[-1], 1))
        rows = len(tree)
        tokens = [*tokens, *(tree.host.tokens[node] for node in path[1:]), 7]
        trees.append(tree)
    return trees


@pytest.mark.parametrize(("seconds", "depth"), [(0.0001, 6), (30.0, 1)], ids=["cheap", "expensive"])
def test_levels_are_drawn_where_they_pay(clock: Clock, seconds: float, depth: int) -> None:
    """Levels that cost more than they bring; a tree that stays flat although the head is sure."""
    head = SlowHead(sure_table(), clock)
    head.seconds = 0.02
    drafter = sized(head, COSTS["free rows"])
    run_rounds(drafter, 8)  # levels, and what hangs below a node, are not known before
    head.seconds = seconds
    drafter.rewind(0)
    trees = run_rounds(drafter, 60)
    levels = [tree.sizing.levels for tree in trees if tree.sizing and tree.growth]
    assert levels[-16:].count(depth) >= 15  # now and then a level is drawn to see what it takes
    assert all(max(tree.depths) <= tree.sizing.levels for tree in trees if tree.sizing)


def test_an_unsure_head_draws_few_levels(clock: Clock) -> None:
    """A level below nodes that will hardly be reached."""
    head = SlowHead(make_table(spread=0.1), clock)
    head.seconds = 0.02
    trees = run_rounds(sized(head, COSTS["linear"]), 11)
    assert [tree.sizing.levels for tree in trees[-3:] if tree.sizing] == [1, 1, 1]


def test_one_slow_level_is_forgotten(clock: Clock) -> None:
    """The first level seen was slow by chance: trees of one level for the rest of the session."""
    head = SlowHead(sure_table(), clock)
    drafter = sized(head, COSTS["free rows"])
    growing = drafter.sizing.begin(torch.tensor([-0.1]), 0.01)
    growing.is_level_worth_it(torch.tensor([-0.1]))
    clock.now += 1000.0
    growing.drew(torch.tensor([[-0.1]]), torch.tensor([-0.2]))
    head.seconds = 0.001
    trees = run_rounds(drafter, 500)
    assert max(max(tree.depths) for tree in trees[-50:]) > 1


def test_a_stretch_of_unsure_text_is_forgotten(clock: Clock) -> None:
    """After a page of noise the head is sure again, and trees stay flat for the rest of the session."""
    head = SlowHead(sure_table(), clock)
    drafter = sized(head, COSTS["free rows"])
    assert drafter.sizing
    for _ in range(200):
        growing = drafter.sizing.begin(torch.tensor([-0.1]), 0.01)
        if growing.is_level_worth_it(torch.tensor([-0.1])):
            clock.now += 0.1
            growing.drew(torch.full((4, 4), -9.0), torch.full((16,), -9.1))
    head.seconds = 0.1
    trees = run_rounds(drafter, 500)
    assert max(max(tree.depths) for tree in trees[-50:]) > 1
