"""The tree's algebra, and the rerank that must stay closed under ancestors whatever ties."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from engine import DraftTree, Growth
from engine.drafters.eagle2 import check_tree_size
from engine.drafters.rerank import rerank
from tests.engine.stubs import make_tree


def random_tree(rng: random.Random, nodes: int, vocabulary: int = 5) -> DraftTree:
    parents = [-1] + [rng.randrange(node) for node in range(1, nodes)]
    return make_tree(rng.choices(range(vocabulary), k=nodes), parents)


def ancestors(tree: DraftTree, node: int) -> list[int]:
    """From the node up to the root, both included."""
    path = [node]
    while (parent := int(tree.parents[path[-1]])) >= 0:
        path.append(parent)
    return path


@pytest.mark.parametrize("seed", range(30))
def test_mask_and_depths_are_the_ancestors(seed: int) -> None:
    """A closure that misses a generation, or takes a sibling for an ancestor."""
    rng = random.Random(seed)
    tree = random_tree(rng, rng.randint(1, 40))
    for node in range(len(tree)):
        seen = ancestors(tree, node)
        assert tree.mask[node].nonzero().flatten().tolist() == sorted(seen)
        assert tree.depths[node] == len(seen) - 1


@pytest.mark.parametrize("length", [1, 2, 9])
def test_a_chain_is_causal(length: int) -> None:
    """A chain whose mask is not the lower triangle would decode differently from plain decoding."""
    tree = DraftTree.chain(list(range(length)))
    assert torch.equal(tree.mask, torch.ones(length, length).tril().bool())
    assert tree.depths == list(range(length))


def test_child_takes_the_first_of_duplicate_siblings() -> None:
    """A cousin or a later twin with the same token: its KV row would have another parent."""
    tree = make_tree([9, 4, 4, 7, 4, 7, 7], [-1, 0, 0, 0, 1, 2, 1])
    assert tree.child(0, 4) == 1
    assert tree.child(0, 7) == 3
    assert tree.child(1, 4) == 4
    assert tree.child(1, 7) == 6
    assert tree.child(2, 7) == 5
    assert tree.child(2, 4) is None
    assert tree.child(3, 9) is None
    assert tree.child(6, 4) is None


@pytest.mark.parametrize("seed", range(20))
def test_clip_keeps_the_shallow_part(seed: int) -> None:
    """Parents that still count the removed nodes, values that slipped against their tokens."""
    rng = random.Random(seed)
    tree = random_tree(rng, 25)
    tree = DraftTree(tree.tokens, tree.parents, values=torch.arange(25.0))
    for depth in range(max(tree.depths) + 2):
        clipped = tree.clip(depth)
        kept = [node for node in range(25) if tree.depths[node] <= depth]
        assert clipped.values is not None
        assert clipped.values.tolist() == kept
        assert clipped.tokens.tolist() == [tree.host.tokens[node] for node in kept]
        for new, old in enumerate(kept):
            assert [kept[node] for node in ancestors(clipped, new)] == ancestors(tree, old)


def test_unequal_arrays_are_refused() -> None:
    """A tree whose tokens and parents slipped against each other."""
    with pytest.raises(ValueError, match=r"\(3,\).*\(2,\)"):
        DraftTree(torch.tensor([1, 2, 3]), torch.tensor([-1, 0]))


def random_growth(rng: random.Random, depth: int, beam: int, step: Tensor) -> Growth:
    """Level by level as EAGLE-2 grows, log-probabilities drawn from `step` (zeros are probability 1)."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))

    def draw(n: int) -> Tensor:
        return step[torch.randint(len(step), (n,), generator=generator)].sort(descending=True).values

    parents, values, frontier = [-1] * beam, draw(beam).tolist(), list(range(beam))
    for _ in range(depth - 1):
        first = len(values)
        for node in frontier:
            parents += [node] * beam
            values += (values[node] + draw(beam)).tolist()
        level = range(first, len(values))
        frontier = sorted(level, key=lambda node: (-values[node], node))[:beam]
    size = len(values)
    flags = torch.zeros(2, size, dtype=torch.bool)
    return Growth(torch.arange(size) + 100, torch.tensor(parents), torch.tensor(values), *flags)


STEPS = {
    "spread": -torch.linspace(0.01, 5, 200),
    "one-hot": torch.tensor([0.0, 0.0, -30.0]),
    "coarse, as bf16 rounds": torch.tensor([0.0, -1e-8, -0.25, -0.25, -0.5]).bfloat16().float(),
    "all certain": torch.zeros(1),
    "impossible": torch.tensor([0.0, -1.0, -float("inf")]),
}


@pytest.mark.parametrize("step", STEPS)
def test_rerank_takes_the_best_and_stays_closed(step: str) -> None:
    """A child that ties with its parent and is kept alone: it would be hung below another node, silently."""
    rng = random.Random(1)
    for _ in range(200):
        depth, beam = rng.randint(1, 5), rng.randint(1, 5)
        growth = random_growth(rng, depth, beam, STEPS[step])
        size = len(growth.tokens)
        nodes = rng.randint(1, size)
        tree = rerank(growth, root=7, nodes=nodes)
        order = sorted(range(size), key=lambda i: (-float(growth.values[i]), i))
        best = sorted(order[:nodes])
        assert tree.tokens.tolist() == [7, *(100 + i for i in best)]
        assert growth.kept.nonzero().flatten().tolist() == best
        pool_parents = [int(growth.parents[i]) for i in best]
        assert all(parent == -1 or parent in best for parent in pool_parents)
        expected = [0 if parent == -1 else 1 + best.index(parent) for parent in pool_parents]
        assert tree.parents.tolist() == [-1, *expected]
        assert all(parent < node for node, parent in enumerate(tree.host.parents))
        assert tree.values is not None
        assert tree.values.tolist() == [0.0, *growth.values[best].tolist()]


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((0, 1, 1), "nodes, depth and beam must be 1 or larger, not 0, 1 and 1"),
        ((1, 0, 1), "1 or larger, not 1, 0 and 1"),
        ((1, 1, 0), "1 or larger, not 1, 1 and 0"),
        ((1, 1, 51), "beam 51 is larger than the draft vocabulary of 50 tokens"),
        ((5, 1, 4), "nodes 5 is more than the 4 candidates that depth 1 and beam 4 draw"),
        ((53, 4, 4), "nodes 53 is more than the 52 candidates"),
    ],
)
def test_impossible_tree_sizes(size: tuple[int, int, int], message: str) -> None:
    """torch.topk would say 'selected index k out of range', in the middle of a reply."""
    with pytest.raises(ValueError, match=message):
        check_tree_size(*size, vocabulary=50)


@pytest.mark.parametrize("size", [(1, 1, 1), (4, 1, 4), (52, 4, 4), (50, 1, 50)])
def test_largest_tree_sizes(size: tuple[int, int, int]) -> None:
    """A bound that is one too strict."""
    check_tree_size(*size, vocabulary=50)
