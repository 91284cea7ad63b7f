"""Bugs put in on purpose: each must break the equality, or the equality suite proves nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import DraftTree, Engine, GenerationSettings, Sampler, StockTarget
from tests.engine.conftest import Bench
from tests.engine.stubs import Oracle, plain_reply

PROMPTS = ([7], [3, 14, 15, 9, 26, 5], [50, 51, 52, 53])
SAMPLINGS = {
    "greedy": {},
    "sampled": {"temperature": 0.7, "repetition_penalty": 1.3},
}
Accept = Callable[[DraftTree, Tensor, list[int], Sampler], tuple[list[int], int]]


@pytest.fixture(params=SAMPLINGS)
def settings(request: pytest.FixtureRequest) -> GenerationSettings:
    return GenerationSettings(**SAMPLINGS[request.param], max_new_tokens=40, seed=3)


def broken_prompts(bench: Bench, target: StockTarget, settings: GenerationSettings) -> list[int]:
    """Indices of the prompts whose text the oracle drafter changes, or on which it fails."""
    oracle = Oracle(target.vocabulary)
    broken = []
    for index, prompt in enumerate(PROMPTS):
        expected = plain_reply(bench.target, prompt, settings)
        oracle.future = prompt + expected
        engine = Engine(target, {"oracle": oracle})
        try:
            for _ in engine.generate(prompt, settings, "oracle"):
                pass
        except Exception:  # a bug may show as anything
            broken.append(index)
            continue
        if engine.tokens != oracle.future:
            broken.append(index)
    return broken


class WrongView(StockTarget):
    """Shows `verify` a tree with one derived property replaced."""

    def __init__(self, bench: Bench, name: str, value: Callable[[DraftTree], object]) -> None:
        super().__init__(bench.target.model)
        self._name, self._value = name, value

    def verify(self, tree: DraftTree) -> tuple[Tensor, Tensor | None]:
        wrong = DraftTree(tree.tokens, tree.parents)
        wrong.__dict__[self._name] = self._value(tree)  # where a cached_property keeps its value
        return super().verify(wrong)


class WrongKeep(StockTarget):
    """Keeps other rows than those of the path."""

    def __init__(self, bench: Bench, rows: Callable[[list[int]], list[int]]) -> None:
        super().__init__(bench.target.model)
        self._rows = rows

    def keep(self, path: list[int]) -> None:
        super().keep(self._rows(path))


def everything(tree: DraftTree) -> Tensor:
    return torch.ones(len(tree), len(tree), dtype=torch.bool)


def without_parent(tree: DraftTree) -> Tensor:
    mask = tree.mask.clone()
    mask[torch.arange(1, len(tree)), tree.parents[1:]] = False
    return mask


VIEWS: dict[str, tuple[str, Callable[[DraftTree], object]]] = {
    "all nodes see each other": ("mask", everything),
    "causal instead of ancestors": ("mask", lambda tree: everything(tree).tril()),
    "parent left out": ("mask", without_parent),
    "transposed mask": ("mask", lambda tree: tree.mask.T),
    "row index as position": ("depths", lambda tree: list(range(len(tree)))),
    "depth off by one below the root": ("depths", lambda tree: [d + (d > 0) for d in tree.depths]),
    "same position for all": ("depths", lambda tree: [0] * len(tree)),
}
KEEPS: dict[str, Callable[[list[int]], list[int]]] = {
    "prefix instead of path": lambda path: list(range(len(path))),
    "last node lost": lambda path: [*path[:-1], 0],
    "one row too few": lambda path: path[:-1],
    "one row too many": lambda path: [*path, path[-1]],
}


def test_without_a_bug_nothing_breaks(llama: Bench, settings: GenerationSettings) -> None:
    """Controls that fail for another reason than the planted bug."""
    assert broken_prompts(llama, StockTarget(llama.target.model), settings) == []
    assert broken_prompts(llama, WrongView(llama, "mask", lambda tree: tree.mask), settings) == []
    assert broken_prompts(llama, WrongKeep(llama, list), settings) == []


@pytest.mark.parametrize("bug", VIEWS)
def test_wrong_mask_or_position_shows(llama: Bench, settings: GenerationSettings, bug: str) -> None:
    """A tree forward in which nodes see other nodes or stand elsewhere."""
    assert broken_prompts(llama, WrongView(llama, *VIEWS[bug]), settings)


@pytest.mark.parametrize("bug", KEEPS)
def test_wrong_compaction_shows(llama: Bench, settings: GenerationSettings, bug: str) -> None:
    """Rows of refused nodes that stay in the cache, or accepted ones that go."""
    assert broken_prompts(llama, WrongKeep(llama, KEEPS[bug]), settings)


def right_accept(
    tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler
) -> tuple[list[int], int]:
    """The walk once more, for the wrong ones to start from."""
    path, prefix = [0], list(prefix)
    while True:
        token = sampler.pick(logits[path[-1]], prefix)
        child = tree.child(path[-1], token)
        if child is None:
            return path, token
        path.append(child)
        prefix.append(token)


def bonus_from_the_last_row(
    tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler
) -> tuple[list[int], int]:
    path, _ = right_accept(tree, logits, prefix, sampler)
    return path, sampler.pick(logits[-1], prefix + tree.tokens[path[1:]].tolist())


def bonus_from_the_root(
    tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler
) -> tuple[list[int], int]:
    path, _ = right_accept(tree, logits, prefix, sampler)
    return path, sampler.pick(logits[0], prefix)


def first_child_taken_unseen(
    tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler
) -> tuple[list[int], int]:
    path, bonus = right_accept(tree, logits, prefix, sampler)
    return (
        ([0, 1], sampler.pick(logits[1], [*prefix, int(tree.tokens[1])])) if len(tree) > 1 else (path, bonus)
    )


def cousins_taken_for_children(
    tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler
) -> tuple[list[int], int]:
    path, prefix = [0], list(prefix)
    while True:
        token = sampler.pick(logits[path[-1]], prefix)
        level = [node for node in range(len(tree)) if tree.depths[node] == len(path)]
        same = [node for node in level if tree.host.tokens[node] == token]
        if not same:
            return path, token
        path.append(same[0])
        prefix.append(token)


def residual(tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler) -> tuple[list[int], int]:
    """Accept a child with its probability, else take it out and draw from the rest.

    Exact in distribution, with randomness of its own, so no longer the text of the seed.
    """
    rng = np.random.default_rng(len(prefix))
    path, prefix = [0], list(prefix)
    while True:
        p = sampler.scores(logits[path[-1]], prefix).double().softmax(-1).numpy()
        for child in (i for i, parent in enumerate(tree.host.parents) if parent == path[-1]):
            token = tree.host.tokens[child]
            if rng.random() < p[token]:
                path.append(child)
                prefix.append(token)
                break
            p[token] = 0
            p /= p.sum()
        else:
            return path, int(rng.choice(len(p), p=p))


def prefix_that_does_not_grow(
    tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler
) -> tuple[list[int], int]:
    """Every node with the root's prefix: the noise of one position, the penalties of one text."""
    path = [0]
    while True:
        token = sampler.pick(logits[path[-1]], prefix)
        child = tree.child(path[-1], token)
        if child is None:
            return path, token
        path.append(child)


ACCEPTS: tuple[Accept, ...] = (
    bonus_from_the_last_row,
    bonus_from_the_root,
    first_child_taken_unseen,
    cousins_taken_for_children,
)
SAMPLED_ONLY: tuple[Accept, ...] = (residual, prefix_that_does_not_grow)


@pytest.mark.parametrize("bug", ACCEPTS, ids=lambda bug: bug.__name__)
def test_wrong_commit_shows(
    llama: Bench, settings: GenerationSettings, monkeypatch: pytest.MonkeyPatch, bug: Accept
) -> None:
    """A bonus of another node, or a node accepted without the target's word."""
    with monkeypatch.context() as patch:
        patch.setattr("engine.generate.accept", right_accept)
        assert broken_prompts(llama, StockTarget(llama.target.model), settings) == []
        patch.setattr("engine.generate.accept", bug)
        assert broken_prompts(llama, StockTarget(llama.target.model), settings)


@pytest.mark.parametrize("bug", SAMPLED_ONLY, ids=lambda bug: bug.__name__)
@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0.7},
        {"temperature": 1.0, "top_p": 0.9},
        {"temperature": 0.7, "repetition_penalty": 1.3},
    ],
)
def test_wrong_randomness_shows(
    llama: Bench, monkeypatch: pytest.MonkeyPatch, bug: Accept, sampling: dict[str, float]
) -> None:
    """Acceptance by coin toss, or noise and penalties that ignore the accepted tokens."""
    monkeypatch.setattr("engine.generate.accept", bug)
    settings = GenerationSettings(**sampling, max_new_tokens=40, seed=3)
    assert broken_prompts(llama, StockTarget(llama.target.model), settings)


def test_wrong_penalty_prefix_shows_at_temperature_zero(
    llama: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Greedy with a repetition penalty is the one greedy case that needs each node's own prefix."""
    monkeypatch.setattr("engine.generate.accept", prefix_that_does_not_grow)
    settings = GenerationSettings(repetition_penalty=1.3, max_new_tokens=60)
    assert broken_prompts(llama, StockTarget(llama.target.model), settings)
    assert broken_prompts(llama, StockTarget(llama.target.model), GenerationSettings(max_new_tokens=60)) == []
