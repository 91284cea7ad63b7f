"""Shared by the engine's tests: one thread, and one engine with every drafter per tiny model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle

import pytest
import torch
from transformers import PreTrainedModel

from engine import (
    Ablation,
    Calibration,
    Costs,
    DraftModel,
    Eagle,
    Eagle2,
    Engine,
    Grafted,
    Hydra,
    Lookahead,
    Medusa,
    PromptLookup,
    StockTarget,
    Target,
    load_eagle_head,
)
from engine.drafters.trimmed import trimmed
from tests.engine.stubs import Echo, Moody, Noise, Oracle
from tests.engine.tiny import FAMILIES, HEADS, MODELS, make_model, perturbed, write_layout
from tests.engine.tiny_heads import load_hydra, load_medusa
from tests.engine.tiny_training import load_shared

DRAFTERS = (
    "eagle2",
    "eagle2-sized",
    "eagle2-ablated",
    "eagle2+pld",
    "eagle",
    "medusa",
    "hydra",
    "pld",
    "pld-tree",
    "lookahead",
    "draft-model",
    "draft-model-shared",
    "noise",
    "oracle",
    "echo",
)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny tensors run slower on several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass
class Bench:
    """A tiny target and an engine with all drafters on it."""

    target: Target
    engine: Engine
    oracle: Oracle


def make_benches(
    tmp_path_factory: pytest.TempPathFactory, make: Callable[[PreTrainedModel], Target], context: int = 2048
) -> dict[str, Bench]:
    """By model name; each model gets a head of another published layout."""
    made = {}
    for name, layout in zip(FAMILIES, cycle(HEADS)):
        model = make_model(name, context=context)
        target = make(model)
        folder = write_layout(tmp_path_factory.mktemp("heads") / layout, layout, model)
        heads = [load_eagle_head(folder, target, name) for _ in range(2)]  # a cache may be shared
        halved = trimmed(heads[0], torch.arange(0, heads[0].vocabulary, 2))
        oracle = Oracle(target.vocabulary)
        drafters = {
            "eagle2": Eagle2(heads[0], nodes=20, depth=4, beam=6),
            "eagle2-sized": Eagle2(heads[1], 20, 4, 6, Calibration(4), Moody(20)),
            "eagle2-ablated": Eagle2(halved, 20, 4, 6, ablation=Ablation(value=False, rerank=False)),
            "eagle2+pld": Grafted(
                Eagle2(heads[1], 20, 4, 6, Calibration(4), Moody(20)), PromptLookup(depth=6), Costs({1: 1.0})
            ),
            "eagle": Eagle(heads[0]),
            "medusa": Medusa(load_medusa(folder / "medusa", name, target)),
            "hydra": Hydra(load_hydra(folder / "hydra", name, target)),
            "pld": PromptLookup(depth=4),
            "pld-tree": PromptLookup(6, candidates=4, nodes=12, costs=Costs({1: 1.0, 61: 4.0})),
            "lookahead": Lookahead(window=4, ngram=4, candidates=3),
            "draft-model": DraftModel(make(perturbed(model, 3, 0.02)), target.vocabulary, depth=4),
            "draft-model-shared": DraftModel(
                load_shared(folder / "shared", name, target), target.vocabulary, depth=4
            ),
            "noise": Noise(target.vocabulary),
            "oracle": oracle,
            "echo": Echo(),
        }
        made[name] = Bench(target, Engine(target, drafters), oracle)
    return made


@pytest.fixture(scope="session")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    """With transformers' own forward."""
    return make_benches(tmp_path_factory, StockTarget)


@pytest.fixture(params=MODELS)
def bench(request: pytest.FixtureRequest, benches: dict[str, Bench]) -> Bench:
    """Every dense tiny model in turn, its engine empty."""
    benches[request.param].engine.reset()
    return benches[request.param]


@pytest.fixture
def llama(benches: dict[str, Bench]) -> Bench:
    """The first tiny model, its engine empty."""
    benches["llama"].engine.reset()
    return benches["llama"]
