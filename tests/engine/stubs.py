"""Stub drafters that know too much, too little or nothing, and the runs that tests compare."""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
from torch import Tensor

from engine import (
    Costs,
    DraftTree,
    Engine,
    GenerationSettings,
    Prefill,
    Round,
    Sampler,
    Sizing,
    StockTarget,
    Target,
    TreeSizing,
)
from engine.drafters.sizing import GrowingTree


class Blind:
    """What every stub shares: it looks at nothing and remembers nothing."""

    taps: tuple[int, ...] = ()

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Nothing to learn."""

    def rewind(self, length: int) -> None:
        """Nothing to forget."""


class Noise(Blind):
    """Random trees: random parents, tokens from a small set so that siblings repeat."""

    def __init__(self, vocabulary: int, nodes: int = 12) -> None:
        self.vocabulary = vocabulary
        self.nodes = nodes

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """A different tree for every length."""
        rng = random.Random(len(tokens))
        few = [rng.randrange(self.vocabulary) for _ in range(4)]
        parents = [-1] + [rng.randrange(node) for node in range(1, self.nodes + 1)]
        return make_tree([tokens[-1], *rng.choices(few, k=self.nodes)], parents)


class Oracle(Blind):
    """The target's own future, from a plain run, scattered among decoys.

    Some futures are broken off by a wrong token, so that paths of every length are accepted.
    """

    def __init__(self, vocabulary: int, depth: int = 4) -> None:
        self.vocabulary = vocabulary
        self.depth = depth
        self.future: list[int] = []  # prompt and plain reply

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """Per level a decoy, the future token and another decoy.

        Below the first decoy hangs the token after the future one: right for its depth, wrong for its parent.
        """
        rng = random.Random(len(tokens))
        ahead = self.future[len(tokens) : len(tokens) + self.depth]
        if ahead and rng.random() < 0.4:
            ahead[rng.randrange(len(ahead))] = rng.randrange(self.vocabulary)
        nodes, parents, at = [tokens[-1]], [-1], 0
        for token, after in zip(ahead, [*ahead[1:], 0], strict=False):
            decoy = len(nodes)
            nodes += [rng.randrange(self.vocabulary), token, rng.randrange(self.vocabulary), after]
            parents += [at, at, at, decoy]
            at = decoy + 1
        return make_tree(nodes, parents)


class Echo(Blind):
    """A chain that repeats the last tokens backwards: right where the text turns round, so hardly ever."""

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """The root, then what came before it."""
        return DraftTree.chain([tokens[-1], *tokens[-2:-5:-1]])


class Moody(TreeSizing):
    """Rests and sizes by made-up costs that change from round to round, so that every size turns up.

    They are so high that what drafting takes does not matter: the same trees on a busy machine.
    """

    def __init__(self, nodes: int) -> None:
        super().__init__(Costs({1: 1.0}), nodes)
        free, some = Costs({1: 10.0, 61: 10.0}), Costs({1: 10.0, 9: 10.2, 10: 11.0, 61: 300.0})
        few, none = Costs({1: 10.0, 3: 10.1, 61: 600.0}), Costs({1: 10.0, 2: 500.0})
        self._moods = (free, few, Costs({1: 10.0, 61: 40.0}), none, some)
        self._turn = 0

    @property
    def is_resting(self) -> bool:
        """Once for one round, once for three, in each dozen."""
        return self._turn % 12 in (3, 7, 8, 9)

    def rest(self) -> Sizing:
        """The next round."""
        self._turn += 1
        return Sizing(0, 0, 1.0, 1.0, 1.0)

    def begin(self, values: Tensor, seconds: float, levels: int = 1) -> GrowingTree:
        """The next round, in another mood."""
        self._turn += 1
        self.costs = self._moods[self._turn % len(self._moods)]
        return super().begin(values, seconds, levels)


def make_tree(tokens: list[int], parents: list[int]) -> DraftTree:
    """A tree from plain lists."""
    return DraftTree(torch.tensor(tokens), torch.tensor(parents))


def check_invariant(engine: Engine) -> None:
    """What must hold whenever a generator is suspended at a Round or closed."""
    assert engine.target.length == len(engine.tokens) - 1
    if isinstance(engine.target, StockTarget) and engine.target.takes_trees:
        for layer in engine.target.cache.layers:
            assert layer.get_seq_length() == engine.target.length
    if engine.features is not None:
        assert len(engine.features.rows(engine.target.length)) == engine.target.length


def rounds(
    engine: Engine, prompt: list[int], settings: GenerationSettings, method: str = "none"
) -> Iterator[Round]:
    """The Rounds of one reply, the invariant checked at each."""
    for event in engine.generate(prompt, settings, method):
        if isinstance(event, Prefill):
            continue
        check_invariant(engine)
        yield event


def reply(engine: Engine, prompt: list[int], settings: GenerationSettings, method: str = "none") -> list[int]:
    """The new tokens of one reply."""
    new = [token for r in rounds(engine, prompt, settings, method) for token in r.new]
    assert engine.tokens == prompt + new
    return new


def plain_reply(target: Target, prompt: list[int], settings: GenerationSettings) -> list[int]:
    """The new tokens of plain decoding, by a fresh engine with a cache of its own."""
    return reply(Engine(StockTarget(target.model)), prompt, settings)
