"""Prompt lookup with several continuations: the right ones, each token once, and only rows that pay."""

from __future__ import annotations

import random

import pytest
import torch

from engine import Costs, DraftTree, GenerationSettings, PromptLookup, Sampler

GREEDY = Sampler(GenerationSettings())
NOTHING = torch.empty(1, 1)
TEXT = [1, 2, 7, 7, 1, 2, 8, 8, 1, 2, 7, 9, 5, 2, 6, 1, 2]  # after 1, 2: 7 9, 8 8, 7 7; after 2 also 6 1


def tree_of(drafter: PromptLookup, tokens: list[int]) -> DraftTree:
    drafter.observe(tokens, None, NOTHING, [0])
    return drafter.propose(tokens, GREEDY)


def leaves(tree: DraftTree) -> list[list[int]]:
    """Paths below the root, in order."""
    tokens, parents = tree.host
    paths: list[list[int]] = [[]]
    for node in range(1, len(tree)):
        paths.append([*paths[parents[node]], tokens[node]])
    return [paths[node] for node in range(len(tree)) if node not in parents]


@pytest.mark.parametrize(
    ("candidates", "paths"),
    [
        (1, [[7, 9]]),
        (2, [[7, 9], [8, 8]]),
        (3, [[7, 9], [8, 8], [7, 7]]),
        (4, [[7, 9], [8, 8], [7, 7], [6, 1]]),
        (9, [[7, 9], [8, 8], [7, 7], [6, 1]]),
    ],
)
def test_the_latest_of_the_longest_come_first(candidates: int, paths: list[list[int]]) -> None:
    """The same continuation twice, a shorter n-gram's before a longer one's, older before newer."""
    tree = tree_of(PromptLookup(2, candidates=candidates), TEXT)
    assert sorted(leaves(tree)) == sorted(paths)
    drafter = PromptLookup(2, candidates=candidates)
    drafter.observe(TEXT, None, NOTHING, [0])
    assert [match.tokens for match in drafter.matches(TEXT)] == paths


def test_common_beginnings_are_verified_once() -> None:
    """Rows that compute the same again; the second of two equal children is never asked."""
    tree = tree_of(PromptLookup(2, candidates=4), TEXT)
    siblings = list(zip(*tree.host, strict=True))
    assert len(set(siblings)) == len(siblings) == 1 + 7


@pytest.mark.parametrize("nodes", range(1, 8))
def test_no_more_nodes_than_wanted(nodes: int) -> None:
    """A budget that counts tokens which are there already, or is not kept."""
    tree = tree_of(PromptLookup(2, candidates=4, nodes=nodes), TEXT)
    assert len(tree) == 1 + nodes
    assert tree.host.tokens[: min(nodes, 2) + 1] == [2, 7, 9][: min(nodes, 2) + 1]


def test_one_candidate_is_the_chain() -> None:
    """More candidates that push the first one out."""
    rng = random.Random(3)
    one, many = PromptLookup(4), PromptLookup(4, candidates=5)
    tokens = [rng.randrange(5)]
    for _ in range(80):
        tokens.append(rng.randrange(5))
        chain, tree = tree_of(one, tokens).host, tree_of(many, tokens).host
        assert tree.tokens[: len(chain.tokens)] == chain.tokens
        assert tree.parents[: len(chain.parents)] == chain.parents


def test_rows_that_do_not_pay_are_left_out() -> None:
    """All that is found, whatever it costs; or the unlikely kept and the likely left out."""

    def size(costs: Costs | None) -> int:
        return len(tree_of(PromptLookup(2, candidates=4, costs=costs), TEXT))

    assert size(None) == size(Costs({1: 1.0, 61: 1.0})) == 8
    assert size(Costs({1: 1.0, 61: 121.0})) == 1
    some = tree_of(PromptLookup(2, candidates=4, costs=Costs({1: 1.0, 61: 1.0 + 60 * 0.3})), TEXT)
    assert 1 < len(some) < 8
    assert some.host.tokens[1] == 7


def test_what_comes_is_counted() -> None:
    """Continuations that are always wrong, and drafted for ever."""
    costs = Costs({1: 1.0, 61: 1.0 + 60 * 0.2})
    drafter, rng = PromptLookup(3, candidates=2, costs=costs), random.Random(5)
    tokens = [rng.randrange(4) for _ in range(40)]
    first = len(tree_of(drafter, tokens))
    for new in range(100, 160):  # what never was before follows what was
        tokens += [new, rng.randrange(4), rng.randrange(4)]
        last = tree_of(drafter, tokens)
    assert first > 1
    assert len(last) == 1


@pytest.mark.parametrize(("candidates", "nodes"), [(0, 3), (3, 0)])
def test_impossible_sizes(candidates: int, nodes: int) -> None:
    """A drafter that never drafts."""
    with pytest.raises(ValueError, match=f"not {candidates} and {nodes}"):
        PromptLookup(3, candidates=candidates, nodes=nodes)
