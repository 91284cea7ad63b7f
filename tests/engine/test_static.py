"""Fixed shapes, as CUDA graphs hold them: the same numbers and texts, and nothing a graph could not record.

Here the functions are called; on a GPU the last tests record and replay them.
"""

from __future__ import annotations

import random
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from engine import (
    Calibration,
    Eagle2,
    Engine,
    GenerationSettings,
    LeanTarget,
    Sampler,
    StockTarget,
    load_eagle_head,
)
from engine.experts import FEW_ROWS
from engine.graphs import Compute, Graphs
from engine.static import SHORTEST_REACH, WIDTHS
from tests.engine.stubs import Moody, Noise, plain_reply, reply
from tests.engine.test_lean import lean_target, same
from tests.engine.test_target import path_to, random_tree
from tests.engine.tiny import HEADS, MODELS, make_model, write_layout

SETTINGS = {
    "greedy": GenerationSettings(max_new_tokens=40),
    "T0.7-top-p": GenerationSettings(temperature=0.7, top_p=0.9, max_new_tokens=40, seed=5),
    "T1-top-k-min-p": GenerationSettings(temperature=1.0, top_k=20, min_p=0.05, max_new_tokens=40, seed=6),
    "penalty": GenerationSettings(temperature=1.0, repetition_penalty=1.3, max_new_tokens=40, seed=7),
}
PAIRS = list(zip(MODELS, HEADS, strict=True))
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    """As the engine's loop runs."""
    with torch.inference_mode():
        yield


def static_target(name: str, device: str = "cpu") -> LeanTarget:
    return LeanTarget(make_model(name).to(device), static=True)


def make_drafter(
    target: LeanTarget, folder: Path, static: bool, sized: bool = False, calibrated: bool = False
) -> Eagle2:
    head = load_eagle_head(folder, target, "tiny")
    calibration, sizing = Calibration(4) if calibrated else None, Moody(20) if sized else None
    return Eagle2(head, 20, 4, 6, calibration, sizing, static=static)


@pytest.mark.parametrize("name", MODELS)
def test_verification_is_that_of_growing_shapes(name: str) -> None:
    """Padding that is attended to, a window that reads too little, rows written in another place."""
    model = make_model(name)
    plain, static = lean_target(model, (1, -1)), LeanTarget(model, (1, -1), static=True)
    rng = random.Random(3)
    for step in range(24):
        tokens = [rng.randrange(90) for _ in range(rng.choice((1, 5, 60)))]
        for a, b in zip(static.extend(tokens), plain.extend(tokens), strict=True):
            same((a.logits, a.features), (b.logits, b.features))
        tree = random_tree(step, rng.choice((1, 2, 8, 9, 60, WIDTHS[-1] + 1)))
        same(static.verify(tree), plain.verify(tree))
        path = path_to(tree, rng.randrange(len(tree)))
        length = rng.randrange(plain.length // 2, plain.length + 1)
        for target in (static, plain):
            target.keep(path)
            if step % 5 == 4:
                target.rewind(length)
    assert plain.length > SHORTEST_REACH


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(("name", "layout"), PAIRS)
def test_trees_are_those_of_growing_shapes(
    name: str, layout: str, settings: GenerationSettings, tmp_path: Path
) -> None:
    """Pairs left out of the catch-up, levels that see each other, noise of another depth, factors forgotten.

    The text grows by any number of tokens a round, past the window's first size, and is shortened.
    """
    target = static_target(name)
    folder = write_layout(tmp_path, layout, target.model)
    drafters = [make_drafter(target, folder, static, calibrated=True) for static in (True, False)]
    rng = random.Random(8)
    tokens = [rng.randrange(90) for _ in range(SHORTEST_REACH - 60)]
    features = torch.randn(2 * SHORTEST_REACH, target.hidden_size, generator=torch.Generator().manual_seed(2))
    rows, path = 1, [0]
    for step in range(24):
        trees = []
        for drafter in drafters:
            drafter.observe(tokens, features[: len(tokens) - 1], torch.empty(rows, 1), path)
            trees.append(drafter.propose(tokens, Sampler(settings)))
        static, growing = trees
        assert static.host == growing.host
        torch.testing.assert_close(static.values, growing.values, rtol=0, atol=1e-4)
        for column in ("tokens", "parents", "expanded", "kept"):
            assert torch.equal(getattr(static.growth, column), getattr(growing.growth, column))
        rows, path = len(static), path_to(static, rng.randrange(len(static)))
        tokens = tokens + [static.host.tokens[node] for node in path[1:]] + [rng.randrange(90)]
        if step % 6 == 5:
            tokens = tokens[: len(tokens) - rng.randrange(1, 20)]
            for drafter in drafters:
                drafter.rewind(len(tokens) - 2)
    assert len(tokens) > SHORTEST_REACH - 60


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(("name", "layout"), PAIRS)
def test_the_text_is_plain_decodings(
    name: str, layout: str, settings: GenerationSettings, tmp_path: Path
) -> None:
    """Whole replies, two turns, with trees of one size and of many."""
    target = static_target(name)
    folder = write_layout(tmp_path, layout, target.model)
    sized = make_drafter(target, folder, static=True, sized=True, calibrated=True)
    drafters = {"eagle2": make_drafter(target, folder, static=True), "sized": sized}
    plain, engine = StockTarget(make_model(name)), Engine(target, drafters | {"noise": Noise(90)})
    prompt = [3, 14, 15, 9, 26, 5]
    for _ in range(2):
        expected = plain_reply(plain, prompt, settings)
        for method in ("eagle2", "sized", "noise", "none"):
            assert reply(engine, prompt, settings, method) == expected
        prompt = [*prompt, *expected, 4, 8]


def test_sized_trees_are_the_best_nodes(tmp_path: Path) -> None:
    """A tree cut to fewer nodes must be the one that the rerank would have kept."""
    target = static_target("llama")
    folder = write_layout(tmp_path, "llama3", target.model)
    whole, sized = (make_drafter(target, folder, static=True, sized=sized) for sized in (False, True))
    features, sizes = torch.randn(60, target.hidden_size), set()
    for length in range(4, 60):
        tokens = [(7 * i + i * i) % 90 for i in range(length)]
        trees = []
        for drafter in (whole, sized):
            drafter.observe(tokens, features[: length - 1], torch.empty(1, 1), [0])
            trees.append(drafter.propose(tokens, Sampler(GenerationSettings())))
        large, small = trees
        if small.growth is None:  # rested
            continue
        best = sorted(range(20), key=lambda i: (-large.values[1 + i].item(), i))[: len(small) - 1]
        expected = large.only([0, *(1 + i for i in sorted(best))])
        assert small.host == expected.host
        assert small.growth.tokens[small.growth.kept].tolist() == small.host.tokens[1:]
        sizes.add(len(small))
    assert len(sizes) >= 3


@pytest.mark.parametrize("settings", list(SETTINGS.values())[:3], ids=list(SETTINGS)[:3])
def test_drawing_at_all_nodes_at_once_draws_the_same(settings: GenerationSettings) -> None:
    """Noise of a neighbour's depth, filters over the wrong axis: on a GPU alone the text would change."""
    tree, prefix = random_tree(4, 30), [5, 6, 7]
    logits = 3 * torch.randn(len(tree), 97, generator=torch.Generator().manual_seed(1))
    for node, depth in enumerate(tree.depths):
        sampler = Sampler(settings)
        picks = (sampler.pick_all if sampler.greedy else sampler.draw_all)(logits, tree.depths, len(prefix))
        assert picks is not None
        assert picks[node] == Sampler(settings).pick(logits[node], prefix + [0] * depth)


# What a recording does not allow


class Rules(TorchDispatchMode):
    """Notes every operation with its shapes; refuses those that ask for a value or bring one in."""

    REFUSED = (
        "item",
        "nonzero",
        "lift_fresh",
        "is_nonzero",
        "masked_select",
        "equal",
        "resolve_conj",
        "dtype_layout",
    )

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[object, ...]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(func)
        by_mask = "index" in name and any(
            isinstance(x, Tensor) and x.dtype == torch.bool for x in torch.utils._pytree.tree_leaves(args[1:])
        )
        if by_mask or set(self.REFUSED) & set(name.split(".")):
            raise AssertionError(f"a graph cannot hold {name}")
        result = func(*args, **(kwargs or {}))
        shapes = [tuple(x.shape) for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, Tensor)]
        self.seen.append((name, tuple(shapes)))
        return result


ASKING: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.item(),
    "bool": lambda x: bool(x.any()),
    "tolist": lambda x: x.tolist(),
    "mask": lambda x: x[x > 0],
    "literal": lambda x: x + torch.tensor([1.0]),
    "copy": lambda x: x.cpu(),
}


@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
def test_the_rules_refuse_what_asks_the_host(ask: Callable[[Tensor], object]) -> None:
    """Rules that let everything pass."""
    with pytest.raises(AssertionError, match="a graph cannot hold"), Rules():
        ask(torch.ones(1))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(("name", "layout"), PAIRS)
def test_what_is_recorded_is_the_same_every_round(
    name: str, layout: str, settings: GenerationSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shape that follows the text, a value asked of the device: a replay would repeat the first round."""
    seen: dict[Hashable, list[object]] = defaultdict(list)

    def run(
        self: Graphs,
        key: Hashable,
        memory: tuple[Tensor, ...],
        make: Callable[[], Compute],
        inputs: tuple[Tensor, ...],
    ) -> tuple[Tensor, ...]:
        shapes = tuple(tuple(x.shape) for x in inputs)
        with Rules() as rules:
            outputs = make()(*inputs)
        seen[id(self), key].append((shapes, rules.seen))
        return outputs

    monkeypatch.setattr(Graphs, "run", run)
    monkeypatch.setattr("engine.drafters.ranking.may_ask", lambda device: False)  # as on a GPU
    target = static_target(name)
    folder = write_layout(tmp_path, layout, target.model)
    engine = Engine(target, {"eagle2": make_drafter(target, folder, static=True, calibrated=True)})
    reply(engine, [3, 14, 15, 9, 26, 5], settings, "eagle2")
    assert max(map(len, seen.values())) >= 5
    for rounds in seen.values():
        assert all(one == rounds[0] for one in rounds)


def test_no_tree_is_too_wide_for_experts_of_a_fixed_shape() -> None:
    """Experts that ask the host how many rows each has: a recording would fail."""
    assert WIDTHS[-1] <= FEW_ROWS


# With a GPU


@on_gpu
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(("name", "layout"), PAIRS)
def test_replayed_texts_are_plain_decodings(
    name: str, layout: str, settings: GenerationSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Memory that a graph still points to, inputs that are not copied, outputs read too late.

    And texts that grow past the slab in mid-reply, so that no graph is recorded any more.
    """
    target = static_target(name, "cuda")
    folder = write_layout(tmp_path, layout, target.model)
    engine = Engine(target, {"eagle2": make_drafter(target, folder, static=True, sized=True)})
    plain = StockTarget(make_model(name).to("cuda"))
    prompt = [3, 14, 15, 9, 26, 5]
    for _ in range(8):  # past the first size of slab and window
        expected = plain_reply(plain, prompt, settings)
        assert reply(engine, prompt, settings, "eagle2") == expected
        prompt = [*prompt, *expected, 4, 8]
    assert "no CUDA graph" not in caplog.text


@on_gpu
def test_a_round_waits_for_the_gpu_three_times(tmp_path: Path) -> None:
    """The tree, the forward, the picks: whatever else asks the device for a value holds every round up."""
    target = static_target("llama", "cuda")
    folder = write_layout(tmp_path, "llama3", target.model)
    engine = Engine(target, {"eagle2": make_drafter(target, folder, static=True, calibrated=True)})
    settings, prompt = GenerationSettings(max_new_tokens=40), [3, 14, 15, 9]
    reply(engine, prompt, settings, "eagle2")  # records
    steps = engine.generate(prompt, settings, "eagle2")
    next(steps), next(steps), next(steps)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            next(steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert sum("synchroniz" in str(warning.message) for warning in caught) <= 3


@on_gpu
def test_what_cannot_be_recorded_is_run(caplog: pytest.LogCaptureFixture) -> None:
    """A library that synchronises inside a graph: slower, never an error, and no other stream afterwards."""
    graphs, x = Graphs(torch.device("cuda")), torch.arange(4.0)
    before = torch.cuda.current_stream()
    for key in "aab":
        (found,) = graphs.run(key, (), lambda: lambda given: (given * given.sum().item(),), (x,))
        assert found.tolist() == [0.0, 6.0, 12.0, 18.0]
    assert caplog.text.count("no CUDA graph") == 1
    assert torch.cuda.current_stream() == before
