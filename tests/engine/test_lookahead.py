"""Lookahead decoding: its window is the published one, and its n-grams are what the target says."""

from __future__ import annotations

import random

import pytest
import torch

from engine import DraftTree, GenerationSettings, Lookahead, Sampler
from engine.drafters.lookahead import NgramPool
from engine.verify import accept

GREEDY = Sampler(GenerationSettings())
VOCABULARY = 23


def says(text: list[int]) -> int:
    """A target whose next token hangs on the whole text."""
    return random.Random(str(text)).randrange(VOCABULARY)


def repeats(text: list[int]) -> int:
    """A target that goes round and round."""
    return (text[-1] + 5) % VOCABULARY


def path_to(tree: DraftTree, node: int) -> list[int]:
    """Tokens below the root."""
    path: list[int] = []
    while node:
        path, node = [tree.host.tokens[node], *path], tree.host.parents[node]
    return path


def logits_of(tree: DraftTree, text: list[int], target: object = says) -> torch.Tensor:
    """[N, V], one-hot."""
    assert callable(target)
    rows = torch.zeros(len(tree), VOCABULARY)
    for node in range(len(tree)):
        rows[node, target([*text, *path_to(tree, node)])] = 1
    return rows


def decode(drafter: Lookahead, text: list[int], rounds: int, target: object = says) -> list[DraftTree]:
    """The trees of some rounds; the tokens are appended to the text."""
    trees = []
    for _ in range(rounds):
        tree = drafter.propose(text, GREEDY)
        trees.append(tree)
        logits = logits_of(tree, text, target)
        path, bonus = accept(tree, logits, text, GREEDY)
        text += [*(tree.host.tokens[node] for node in path[1:]), bonus]
        drafter.observe(text, None, logits, path)
    return trees


class Published:
    """The window as the paper draws it, by position after the root, 0 the root's own.

    The oldest row is at 1 … W - 1 and each younger one a position further. A token sees the oldest row up to
    where its diagonal begins, and of each row between the one token before it on the diagonal.
    """

    def __init__(self, first: list[int], ngram: int) -> None:
        self.rows = [dict(enumerate(first, start=1))]
        self.ngram = ngram

    def step(self, text: list[int]) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
        """Paths that end in the youngest row, and the n-grams found; then all is one nearer to the root."""
        self.rows[0][0] = text[-1]
        youngest, ages = self.rows[-1], len(self.rows)
        paths, ngrams, said = set(), set(), {}
        for position in youngest:
            oldest = position - (ages - 1)
            diagonal = [self.rows[age][oldest + age] for age in range(1, ages)]
            path = [*(self.rows[0][p] for p in range(1, oldest + 1)), *diagonal]
            said[position + 1] = says([*text, *path])
            paths.add(tuple(path))
            ngrams.add((self.rows[0][oldest], *diagonal, said[position + 1]))
        full = ages == self.ngram - 1
        rows = [*self.rows, said][1 if full else 0 :]
        nearer = [{p - 1: token for p, token in row.items()} for row in rows]
        # what would lie at or before the root is known by now
        self.rows = [{p: token for p, token in row.items() if p >= age} for age, row in enumerate(nearer)]
        return paths, ngrams if full else set()


@pytest.mark.parametrize(("window", "ngram"), [(5, 4), (3, 2), (1, 3), (4, 3), (7, 5)])
def test_the_window_is_the_published_one(window: int, ngram: int) -> None:
    """A row one column off, a diagonal through the wrong row, n-grams that begin a token late."""
    drafter, text = Lookahead(window, ngram, candidates=50), [3, 1, 4, 1, 5]
    first = drafter.propose(text, GREEDY)
    published = Published(path_to(first, len(first) - 1), ngram)
    known: set[tuple[int, ...]] = set()
    for step in range(12):
        paths, ngrams = published.step(text)
        before = set(known)
        (tree,) = decode(drafter, text, 1)
        drawn = {tuple(path_to(tree, node)) for node in range(len(tree))}
        assert paths <= drawn
        leaves = {tuple(path_to(tree, node)) for node in set(range(len(tree))) - set(tree.host.parents)}
        own = {path[1:] for path in before if path[0] == tree.host.tokens[0]}
        assert leaves <= paths | own | {()}
        known |= ngrams
        assert {(t, *rest) for t in range(VOCABULARY) for rest in drafter.pool.after(t)} == known
        if step >= ngram - 2:
            assert len(paths) <= window
            assert max(map(len, paths)) == window + ngram - 3


def test_what_was_found_is_drafted() -> None:
    """A pool that is filled and never asked: a text that goes round would still come token by token."""
    drafter, text = Lookahead(window=4, ngram=4, candidates=2), [3, 8, 2]
    decode(drafter, text, 30, repeats)
    before = len(text)
    decode(drafter, text, 5, repeats)
    assert len(text) - before >= 5 * 4


def test_no_more_candidates_than_wanted() -> None:
    """A pool that grows without end, forgets the latest, or keeps one n-gram twice."""
    pool = NgramPool(2)
    for rest in ([1, 1], [2, 2], [1, 1], [3, 3]):
        pool.add([9, *rest])
    assert pool.after(9) == [[3, 3], [1, 1]]
    assert pool.after(8) == []


def test_the_pool_is_one_replys() -> None:
    """A reply that is made again, and is faster by what the first one found."""
    drafter, text = Lookahead(3, 3, 4), [3, 8, 2]
    trees = decode(drafter, text, 20, repeats)
    drafter.rewind(2)
    again = decode(drafter, [3, 8, 2], 20, repeats)
    assert [tree.host for tree in trees] == [tree.host for tree in again]


def test_a_tree_that_was_cut_teaches_nothing() -> None:
    """Logits of other nodes read as the columns' own, at the end of a reply."""
    drafter, text = Lookahead(4, 3, 4), [3, 8, 2]
    decode(drafter, text, 6)
    tree = drafter.propose(text, GREEDY)
    cut = tree.clip(2)
    assert len(cut) < len(tree)
    drafter.observe([*text, 1], None, logits_of(cut, text), [0])
    again = drafter.propose(text, GREEDY)
    assert again.host == tree.host


@pytest.mark.parametrize("sizes", [(0, 5, 5), (5, 1, 5), (5, 5, 0)])
def test_impossible_sizes(sizes: tuple[int, int, int]) -> None:
    """A window without columns, an n-gram without a continuation."""
    with pytest.raises(ValueError, match=f"not {sizes[0]}, {sizes[1]} and {sizes[2]}"):
        Lookahead(*sizes)
