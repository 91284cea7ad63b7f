"""Speculative sampling by the textbook: the text is another one, its distribution is the target's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
from torch import Tensor

from engine import (
    DraftModel,
    DraftTree,
    Engine,
    GenerationSettings,
    Round,
    SampledDraftModel,
    Sampler,
    StockTarget,
)
from engine.target import Chunk
from tests.engine.markov import make_table
from tests.engine.stubs import plain_reply, reply
from tests.engine.tiny import make_model, perturbed

SIZE, LENGTH, SEEDS = 3, 3, 1200
P, Q = make_table(SIZE, 1.0, seed=1), make_table(SIZE, 2.5, seed=5)
LIMIT = 54.1  # of chi-square with 26 degrees of freedom: one in a thousand is above
WARM = {"temperature": 0.8}
FILTERED = {"temperature": 1.3, "top_k": 2}


class Table:
    """A `Target` that says a row of a table, by the last token alone."""

    taps: tuple[int, ...] = ()
    device = torch.device("cpu")
    takes_trees = True
    context = 1000

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.vocabulary = len(table)
        self.length = 0

    def extend(self, tokens: list[int], chunk: int = 512) -> Iterator[Chunk]:
        """All at once."""
        if tokens:
            self.length += len(tokens)
            yield Chunk(len(tokens), self.table[tokens[-1:]], None)

    def verify(self, tree: DraftTree) -> tuple[Tensor, None]:
        """A row for each node."""
        return self.table[tree.tokens], None

    def keep(self, path: list[int]) -> None:
        """So many more."""
        self.length += len(path)

    def rewind(self, length: int) -> None:
        """So many."""
        self.length = length


def chi_square(drafter: type[DraftModel], how: dict[str, float]) -> float:
    """Of the texts of all seeds against the probabilities of plain sampling."""
    engine = Engine(Table(P), {"sampled": drafter(Table(Q), SIZE, depth=2)})  # type: ignore[arg-type]
    seen: Counter[tuple[int, ...]] = Counter()
    for seed in range(SEEDS):
        engine.reset()
        settings = GenerationSettings(**how, max_new_tokens=LENGTH, seed=seed)  # type: ignore[arg-type]
        for _ in engine.generate([0], settings, "sampled"):
            pass
        seen[tuple(engine.tokens[1:])] += 1
    sampler, total = Sampler(GenerationSettings(**how)), 0.0  # type: ignore[arg-type]
    rows = [sampler.scores(P[token], [token]).softmax(-1).tolist() for token in range(SIZE)]
    for text in product(range(SIZE), repeat=LENGTH):
        expected = float(SEEDS)
        for before, token in zip((0, *text), text, strict=False):
            expected *= rows[before][token]
        if expected == 0:
            assert seen[text] == 0
        else:
            total += (seen[text] - expected) ** 2 / expected
    return total


@pytest.mark.parametrize("how", [WARM, FILTERED])
def test_the_distribution_is_the_targets(how: dict[str, float]) -> None:
    """A ratio upside down, noise that drafts and acceptance share, filters on one side alone."""
    assert chi_square(SampledDraftModel, how) < LIMIT


@pytest.mark.parametrize(
    "wrong", [lambda p, q: p, lambda p, q: (q - p).clamp(min=0)], ids=["from p", "upside down"]
)
def test_wrong_residuals_are_found(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Tensor, Tensor], Tensor]
) -> None:
    """A test of distributions that passes whatever is drawn."""
    monkeypatch.setattr("engine.residual.residual", wrong)
    assert chi_square(SampledDraftModel, WARM) > 2 * LIMIT


def test_drafts_are_accepted_and_refused() -> None:
    """A distribution that is right because nothing is ever drafted; another text by the same seed."""
    engine = Engine(Table(P), {"sampled": SampledDraftModel(Table(Q), SIZE, depth=3)})  # type: ignore[arg-type]
    settings = GenerationSettings(temperature=1.0, max_new_tokens=200, seed=1)
    seen = [r for r in engine.generate([0], settings, "sampled") if isinstance(r, Round)]
    accepted = Counter(len(r.path) - 1 for r in seen)
    assert min(accepted[n] for n in range(4)) > 3
    assert all(r.noise() is None for r in seen)  # it decided nothing
    first = list(engine.tokens)
    engine.reset()
    assert [0, *reply(engine, [0], settings, "sampled")] == first


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_text_is_the_targets(penalty: float) -> None:
    """Draws where there is nothing to draw; a distribution without its penalty."""
    model = make_model("llama")
    small = StockTarget(perturbed(model, 3, 0.02))
    engine = Engine(StockTarget(model), {"sampled": SampledDraftModel(small, 97, depth=4)})
    settings = GenerationSettings(max_new_tokens=40, repetition_penalty=penalty)
    prompt = [3, 14, 15, 9, 26, 5]
    assert reply(engine, prompt, settings, "sampled") == plain_reply(StockTarget(model), prompt, settings)
