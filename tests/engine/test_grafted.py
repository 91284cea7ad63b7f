"""EAGLE-2 with prompt lookup: the branch is what was looked up, as long as it pays, and confuses neither."""

from __future__ import annotations

import pytest
import torch

from engine import Calibration, Costs, DraftTree, Eagle2, GenerationSettings, Grafted, PromptLookup, Sampler
from engine.drafters.chances import GUESS, Chances, Match
from engine.drafters.grafted import follow
from tests.engine.markov import TableHead, make_table
from tests.engine.stubs import make_tree

GREEDY = Sampler(GenerationSettings())
FREE, STEEP = Costs({1: 1.0, 61: 1.0}), Costs({1: 1.0, 61: 121.0})
TEXT = [5, 6, 7, 8, 9, 10, 5, 6, 7]  # goes on with 8, 9, 10, 5, …


def make(costs: Costs | None, calibration: Calibration | None = None) -> Grafted:
    eagle = Eagle2(TableHead(make_table()), nodes=6, depth=3, beam=3, calibration=calibration)
    return Grafted(eagle, PromptLookup(depth=5), costs)


def tree_of(drafter: Grafted, tokens: list[int], rows: int = 0, path: tuple[int, ...] = (0,)) -> DraftTree:
    drafter.observe(tokens, torch.zeros(len(tokens) - 1, 1), torch.empty(rows, 1), list(path))
    return drafter.propose(tokens, GREEDY)


def chain(tree: DraftTree, node: int) -> list[int]:
    """Tokens on the way to a node, without the root's."""
    path: list[int] = []
    while node:
        path, node = [tree.host.tokens[node], *path], tree.host.parents[node]
    return path


def test_the_branch_is_what_followed() -> None:
    """Another n-gram's continuation, or one that hangs below a guess of the head."""
    plain = tree_of(make(None), [5, 6, 7])
    tree = tree_of(make(None), TEXT)
    assert len(plain) == 7
    assert chain(tree, len(tree) - 1) == [8, 9, 10, 5, 6]
    assert tree.growth is not None
    assert tree.growth.tokens[tree.growth.kept].tolist() == tree.host.tokens[1:7]
    assert tree.looked_up == len(tree) - 7
    deepest = max(tree.depths)
    assert tree.clip(deepest - 1).looked_up == tree.looked_up - 1


@pytest.mark.parametrize(
    ("tokens", "found"), [([2, 4, 6], (3, 2)), ([2, 5], (4, 2)), ([9], (0, 0)), ([3, 2, 4], (2, 1))]
)
def test_a_branch_shares_the_nodes_that_are_there(tokens: list[int], found: tuple[int, int]) -> None:
    """A token twice below one node: the second is verified for nothing."""
    assert follow(make_tree([1, 2, 3, 4, 5], [-1, 0, 0, 1, 1]), tokens) == found


def test_values_never_rise_along_a_path() -> None:
    """A branch that is surer than the node it hangs below: its confidence would be above one."""
    tree = tree_of(make(None), TEXT)
    assert tree.values is not None
    for node in range(1, len(tree)):
        assert tree.values[node] <= tree.values[tree.host.parents[node]]


def test_rows_that_do_not_pay_are_left_out() -> None:
    """A branch whose rows cost more than its tokens bring, and one that is left out though it is free."""
    whole, own = len(tree_of(make(None), TEXT)), 7
    assert whole > own + 2
    assert len(tree_of(make(FREE), TEXT)) == whole
    assert len(tree_of(make(STEEP), TEXT)) == own
    assert len(tree_of(make(Costs({1: 1.0, whole: 1.0, 61: 99.0})), TEXT)) == whole


def test_chances_are_counted() -> None:
    """Guesses that never learn; a token counted right after one that was wrong; lengths mixed up."""
    chances, match, other = Chances(), Match([7], [8, 9, 10]), Match([6, 7], [8])
    assert chances.of(match) == [GUESS, GUESS**2, GUESS**3]
    for _ in range(300):
        chances.learn(match, [8, 1, 10])
    first, second, third = chances.of(match)
    assert first > 0.9
    assert second < 0.05
    assert third < 0.05**2
    assert chances.of(other) == [GUESS]
    for _ in range(300):
        chances.learn(match, [8])  # what came is shorter
    assert chances.of(match)[1] == pytest.approx(second, rel=0.01)


def test_what_comes_is_compared_with_what_was_looked_up() -> None:
    """Chances that are learned only where a branch was verified: one left out would stay out."""
    drafter, tokens = make(STEEP), list(TEXT)
    for token in [8, 9, 10, 5, 6, 7] * 6:
        tree_of(drafter, tokens)
        tokens.append(token)
    assert drafter.chances.of(Match([5, 6, 7], [8]))[0] > 0.8


def test_eagle_learns_from_its_own_nodes_alone() -> None:
    """An accepted branch taken for a node of the head, or a round from which the head learns nothing."""
    grafted = make(None, Calibration(3))
    alone = Eagle2(TableHead(make_table()), 6, 3, 3, Calibration(3))
    tree = tree_of(grafted, TEXT)
    alone.observe(TEXT, torch.zeros(len(TEXT) - 1, 1), torch.empty(0, 1), [0])
    own = alone.propose(TEXT, GREEDY)
    branch = [node for node in range(len(own), len(tree)) if tree.host.parents[node] < len(own)]
    path = [0, *branch] if branch and tree.host.parents[branch[0]] == 0 else [0]
    longer = [*TEXT, *(tree.host.tokens[node] for node in path[1:]), 3]
    grafted.observe(longer, torch.zeros(len(longer) - 1, 1), torch.empty(len(tree), 1), path)
    alone.observe(longer, torch.zeros(len(longer) - 1, 1), torch.empty(len(own), 1), [0])
    learned, expected = (drafter.calibration for drafter in (grafted.eagle, alone))
    assert learned is not None
    assert expected is not None
    assert learned.log_factor(1, True) == expected.log_factor(1, True) != 0.0


def test_a_tree_that_was_cut_to_the_size_of_the_heads_teaches_nothing() -> None:
    """Nodes taken for others: at the end of a reply the cut may leave just as many as the head had drawn."""
    drafter = make(None, Calibration(3))
    tree = tree_of(drafter, TEXT)
    drafter.observe([*TEXT, 3], torch.zeros(len(TEXT), 1), torch.empty(7, 1), [0])
    assert len(tree) > 7
    assert drafter.eagle.calibration is not None
    assert [drafter.eagle.calibration.log_factor(depth, True) for depth in (1, 2, 3)] == [0.0] * 3
