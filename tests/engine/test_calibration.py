"""From confidence to chance: what was accepted corrects what the head says, by depth and temperature."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import pytest
import torch

from engine import Calibration, DraftTree, Eagle2, GenerationSettings, Sampler
from engine.drafters.ranking import Ranking
from tests.engine.markov import TableHead, after, make_table, observe, propose
from tests.engine.stubs import make_tree

SAID = 0.8  # of each node of a chain
GREEDY, SAMPLED = Sampler(GenerationSettings()), Sampler(GenerationSettings(temperature=1.0))


def valued(parents: list[int], said: list[float], calibration: Calibration, greedy: bool) -> DraftTree:
    """A tree as a drafter proposes it: node by node what the head says, by the present factors."""
    tree = make_tree(list(range(len(parents))), parents)
    values = [0.0]
    for node in range(1, len(parents)):
        factor = calibration.log_factor(tree.depths[node], greedy)
        values.append(values[parents[node]] + min(math.log(said[node]) + factor, 0.0))
    return DraftTree(tree.tokens, tree.parents, torch.tensor(values))


def learn_chains(
    calibration: Calibration, shares: tuple[float, float, float], rounds: int = 600, greedy: bool = True
) -> None:
    """Chains of three, of which `shares` of what is said is accepted, as evenly as whole nodes allow."""
    due = [0.0, 0.0, 0.0]
    for _ in range(rounds):
        path = [0]
        for i, share in enumerate(shares):
            due[i] += SAID * share
            if due[i] < 1:
                break
            due[i] -= 1
            path.append(i + 1)
        tree = valued([-1, 0, 1, 2], [1.0, SAID, SAID, SAID], calibration, greedy)
        calibration.learn(tree, path, greedy)


def factors(calibration: Calibration, greedy: bool = True) -> list[float]:
    return [math.exp(calibration.log_factor(depth, greedy)) for depth in (1, 2, 3)]


@pytest.mark.parametrize("halved", [0, 1, 2])
def test_half_of_what_is_said_is_a_factor_of_a_half(halved: int) -> None:
    """A factor at the neighbouring depth, of the whole path instead of the node, or applied to itself."""
    calibration = Calibration(3)
    shares = [1.0, 1.0, 1.0]
    shares[halved] = 0.5
    learn_chains(calibration, (shares[0], shares[1], shares[2]))
    assert factors(calibration) == pytest.approx(shares, abs=0.08)


def test_before_anything_was_seen_the_head_is_believed() -> None:
    """A factor from a handful of nodes: the first rounds of a session would be drafted by chance."""
    calibration = Calibration(3)
    assert factors(calibration) == [1.0, 1.0, 1.0]
    tree = valued([-1, 0], [1.0, SAID], calibration, True)
    calibration.learn(tree, [0], True)
    assert 0.7 < factors(calibration)[0] < 1
    assert factors(calibration)[1:] == [1.0, 1.0]


def test_what_was_learned_is_unlearned() -> None:
    """A memory without end: a new topic would be drafted by the acceptance of the old one."""
    calibration = Calibration(3)
    learn_chains(calibration, (0.25, 1.0, 1.0))
    assert factors(calibration)[0] == pytest.approx(0.25, abs=0.08)
    learn_chains(calibration, (1.0, 1.0, 1.0))
    assert factors(calibration) == pytest.approx([1.0, 1.0, 1.0], abs=0.08)


@pytest.mark.parametrize("greedy", [True, False])
def test_greedy_and_sampled_are_apart(greedy: bool) -> None:
    """Acceptance at temperature 1 that spoils the trees of the next greedy reply."""
    calibration = Calibration(3)
    learn_chains(calibration, (0.5, 0.5, 0.5), greedy=greedy)
    assert factors(calibration, greedy)[0] < 0.6
    assert factors(calibration, not greedy) == [1.0, 1.0, 1.0]


def test_untested_nodes_do_not_count() -> None:
    """Nodes below a refused one taken for refused: deep nodes would never be drafted again."""
    calibration = Calibration(3)
    for _ in range(100):
        tree = valued([-1, 0, 0, 1, 2, 3], [1.0, 0.4, 0.4, 0.9, 0.9, 0.9], calibration, True)
        calibration.learn(tree, [0], True)
    assert factors(calibration)[0] < 0.1
    assert factors(calibration)[1:] == [1.0, 1.0]
    for _ in range(100):
        tree = valued([-1, 0, 0, 1, 2, 3], [1.0, 0.4, 0.4, 0.9, 0.9, 0.9], calibration, True)
        calibration.learn(tree, [0, 1], True)
    assert factors(calibration)[1] < 0.1  # node 3 alone was tested
    assert factors(calibration)[2] == 1.0


def test_siblings_share_their_chance() -> None:
    """One accepted of three siblings is what 0.5, 0.3 and 0.2 promise, not a third of it."""
    calibration = Calibration(3)
    for _ in range(300):
        tree = valued([-1, 0, 0, 0], [1.0, 0.5, 0.3, 0.2], calibration, True)
        calibration.learn(tree, [0, 2], True)
    assert factors(calibration)[0] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("sampler", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_values_stay_chances(sampler: Sampler) -> None:
    """A factor above 1 that lifts a chance above 1: children above their parents, trees that fall apart."""
    table = make_table(spread=3.0)
    calibration = Calibration(3)
    for _ in range(300):
        tree = valued([-1, 0, 1, 2], [1.0, 0.2, 0.2, 0.2], calibration, sampler.greedy)
        calibration.learn(tree, [0, 1, 2, 3], sampler.greedy)
    assert all(factor > 3 for factor in factors(calibration, sampler.greedy))
    values, _ = Ranking(TableHead(table), sampler, 2, calibration).best(after(table, 5), 1, 6)
    assert values.max() == 0
    drafter = Eagle2(TableHead(table), nodes=20, depth=3, beam=4, calibration=calibration)
    for token in range(len(table)):
        growth = propose(drafter, [1, token], sampler).growth
        drafter.rewind(0)
        assert growth is not None
        kept = {-1, *growth.kept.nonzero().flatten().tolist()}
        assert len(kept) == 21
        assert all(int(growth.parents[node]) in kept for node in kept - {-1})
        above = torch.cat((growth.values, torch.zeros(1)))[growth.parents]
        assert (growth.values <= above).all()


@dataclass
class Totals:
    """Over the rounds of a run."""

    predicted: float = 0.0  # sum of the values of kept nodes
    accepted: int = 0


def run_overconfident(calibration: Calibration | None, rounds: int = 1600, warm: int = 300) -> Totals:
    """A head that says q where the chance is 0.6 q, through the drafter."""
    table = make_table(spread=3.0)
    chances = 0.6 * table.softmax(-1)
    drafter = Eagle2(TableHead(table), nodes=8, depth=3, beam=3, calibration=calibration)
    rng, totals = random.Random(1), Totals()
    tokens, rows, path = [3, 1], 0, [0]
    for index in range(rounds):
        observe(drafter, tokens, rows, path)
        tree = drafter.propose(tokens, GREEDY)
        path = [0]
        while True:
            here = [node for node, parent in enumerate(tree.host.parents) if parent == path[-1]]
            weights = [float(chances[tree.tokens[path[-1]], tree.tokens[node]]) for node in here]
            (node,) = rng.choices([*here, None], [*weights, 1 - sum(weights)])
            if node is None:
                break
            path.append(node)
        if index >= warm:
            assert tree.values is not None
            totals.predicted += float(tree.values[1:].exp().sum())
            totals.accepted += len(path) - 1
        rows = len(tree)
        tokens = [*tokens, *(tree.host.tokens[node] for node in path[1:]), rng.randrange(len(table))]
    return totals


def test_kept_values_predict_what_is_accepted() -> None:
    """Values that promise more than comes, by which trees grow too large; lessons that are never drawn."""
    totals = run_overconfident(Calibration(3))
    assert totals.predicted == pytest.approx(totals.accepted, rel=0.1)
    control = run_overconfident(None)
    assert control.predicted > 1.4 * control.accepted


def test_a_tree_that_was_cut_before_its_forward_teaches_nothing() -> None:
    """Nodes that never went to the target, at the end of a reply, taken for refused."""
    table, calibration = make_table(), Calibration(3)
    drafter = Eagle2(TableHead(table), nodes=8, depth=3, beam=3, calibration=calibration)
    tree = propose(drafter, [1, 2], GREEDY)
    observe(drafter, [1, 2, 3], rows=len(tree.clip(1)), path=[0])
    assert factors(calibration) == [1.0, 1.0, 1.0]
    drafter.propose([1, 2, 3], GREEDY)
    drafter.rewind(0)
    observe(drafter, [1, 2, 3], rows=len(tree), path=[0])
    assert factors(calibration) == [1.0, 1.0, 1.0]
    tree = drafter.propose([1, 2, 3], GREEDY)
    observe(drafter, [1, 2, 3, 4], rows=len(tree), path=[0])  # the control
    assert factors(calibration)[0] < 1
