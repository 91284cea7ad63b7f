"""EAGLE's fixed tree and the ablations of EAGLE-2: the shapes they are said to have, over a known head."""

from __future__ import annotations

import random

import pytest
import torch

from engine import (
    CHAIN,
    PUBLISHED,
    Ablation,
    DraftTree,
    Eagle,
    Eagle2,
    GenerationSettings,
    Sampler,
    SettingsError,
)
from tests.engine.markov import TableHead, make_table

GREEDY = Sampler(GenerationSettings())
TABLE = make_table()
PATHS = ((0,), (2,), (0, 1), (2, 0), (2, 3), (2, 3, 0))


def best_children(token: int, count: int) -> list[tuple[int, float]]:
    """Tokens and log-confidences, best first."""
    values, ids = TABLE[token].log_softmax(-1).topk(count)
    return list(zip(ids.tolist(), values.tolist(), strict=True))


def tree_of(drafter: Eagle | Eagle2, tokens: list[int]) -> DraftTree:
    drafter.observe(tokens, torch.zeros(len(tokens) - 1, 1), torch.empty(0, 1), [0])
    return drafter.propose(tokens, GREEDY)


def ranks(tree: DraftTree, node: int) -> tuple[int, ...]:
    """The path of a node, by the ranks of its tokens."""
    path: list[int] = []
    while node:
        parent = tree.host.parents[node]
        children = [token for token, _ in best_children(tree.host.tokens[parent], len(TABLE))]
        path.insert(0, children.index(tree.host.tokens[node]))
        node = parent
    return tuple(path)


@pytest.mark.parametrize("paths", [PUBLISHED, CHAIN, PATHS], ids=["published", "chain", "own"])
def test_a_fixed_tree_has_its_paths(paths: tuple[tuple[int, ...], ...]) -> None:
    """Children hung below a neighbour, ranks off by one, values along another path."""
    tree = tree_of(Eagle(TableHead(TABLE), paths), [3, 1, 4])
    assert tree.host.tokens[0] == 4
    assert [ranks(tree, node) for node in range(1, len(tree))] == list(paths)
    assert tree.values is not None
    for node in range(1, len(tree)):
        parent = tree.host.parents[node]
        expected = dict(best_children(tree.host.tokens[parent], len(TABLE)))[tree.host.tokens[node]]
        assert (tree.values[node] - tree.values[parent]).item() == pytest.approx(expected, abs=1e-5)


def test_the_published_tree_is_the_papers() -> None:
    """A node forgotten: 25 of them, 4, 8, 8, 3 and 2 by depth, 15 of them leaves."""
    assert [sum(len(path) == depth for path in PUBLISHED) for depth in range(1, 6)] == [4, 8, 8, 3, 2]
    inner = {path[:-1] for path in PUBLISHED}
    assert sum(path not in inner for path in PUBLISHED) == 15


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        ((), "one rank or more"),
        (((0,), (0,)), "each of them once"),
        (((0,), (1, 0)), r"\[1, 0\] has no parent: add \[1\]"),
        (((0,), (40,)), r"\[40\] has a rank that no candidate has"),
    ],
)
def test_what_is_no_tree_is_refused(paths: tuple[tuple[int, ...], ...], sentence: str) -> None:
    """A user's own tree that hangs in the air."""
    with pytest.raises(SettingsError, match=sentence):
        Eagle(TableHead(TABLE), paths)


def grown(ablation: Ablation, tokens: list[int], nodes: int, depth: int, beam: int) -> DraftTree:
    return tree_of(Eagle2(TableHead(TABLE), nodes, depth, beam, ablation=ablation), tokens)


def reference(ablation: Ablation, root: int, nodes: int, depth: int, beam: int) -> list[tuple[int, ...]]:
    """Kept paths of tokens, by plain loops: path -> (value, confidence)."""
    drawn: dict[tuple[int, ...], tuple[float, float]] = {}
    frontier: list[tuple[int, ...]] = [()]
    chosen: list[tuple[int, ...]] = []
    key = (lambda path: drawn[path][0]) if ablation.value else (lambda path: drawn[path][1])
    for _ in range(depth):
        level = []
        for path in frontier:
            above = drawn[path][0] if path else 0.0
            for token, score in best_children(path[-1] if path else root, beam):
                drawn[*path, token] = above + score, score
                level.append((*path, token))
        frontier = sorted(level, key=key, reverse=True)[:beam]
        chosen += frontier
    kept: set[tuple[int, ...]] = set()
    for path in sorted(drawn if ablation.rerank else chosen, key=key, reverse=True):
        missing = {path[:n] for n in range(1, len(path) + 1)} - kept
        if len(kept) + len(missing) <= nodes:
            kept |= missing
    return sorted(kept)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("rerank", [True, False])
def test_ablations_leave_out_what_they_say(value: bool, rerank: bool) -> None:
    """Ranking by the wrong number, a rerank that still happens, nodes without their parents."""
    rng, differs = random.Random(2), 0
    for _ in range(20):
        tokens = [rng.randrange(len(TABLE)) for _ in range(3)]
        depth, beam = rng.randint(1, 4), rng.randint(2, 5)
        nodes = rng.randint(1, beam * depth)
        tree = grown(Ablation(value, rerank), tokens, nodes, depth, beam)
        found = []
        for node in range(1, len(tree)):
            path: tuple[int, ...] = ()
            while node:
                path, node = (tree.host.tokens[node], *path), tree.host.parents[node]  # noqa: PLW2901
            found.append(path)
        assert sorted(found) == reference(Ablation(value, rerank), tokens[-1], nodes, depth, beam)
        assert tree.growth is not None
        assert tree.growth.tokens[tree.growth.kept].tolist() == tree.host.tokens[1:]
        whole = tree_of(Eagle2(TableHead(TABLE), nodes, depth, beam), tokens)
        differs += whole.host != tree.host
    assert (differs == 0) == (value and rerank)
