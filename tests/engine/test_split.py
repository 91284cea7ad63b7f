"""Targets whose layers are on several devices: the same numbers, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Literal

import pytest
import torch
from transformers import PreTrainedModel

from engine import GenerationSettings, LeanTarget, StockTarget, UnsupportedModelError, load_model, make_target
from tests.engine.conftest import Bench, make_benches
from tests.engine.elsewhere import MisplacedError, elsewhere
from tests.engine.stubs import plain_reply, reply
from tests.engine.test_lean import same
from tests.engine.test_target import close, path_to, random_tree
from tests.engine.tiny import FAMILIES, MODELS, make_model

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def devices() -> Iterator[list[torch.device]]:
    with elsewhere() as found:
        yield found


def split(model: PreTrainedModel, *devices: torch.device) -> PreTrainedModel:
    """A copy whose layers are on `devices` in turn."""
    model = deepcopy(model)
    for layer, device in zip(model.model.layers, devices, strict=True):
        layer.to(device)
    return model


@pytest.fixture(scope="module")
def split_benches(tmp_path_factory: pytest.TempPathFactory, devices: list[torch.device]) -> dict[str, Bench]:
    """The last of two or three layers at home, where drafters are."""

    def make(model: PreTrainedModel) -> LeanTarget:
        return LeanTarget(split(model, *[*devices[:2], CPU][-model.config.num_hidden_layers :]))

    return make_benches(tmp_path_factory, make)


def test_the_devices_are_several(devices: list[torch.device]) -> None:
    """A seam that lets everything pass would prove nothing."""
    here, there = torch.ones(2, device=devices[0]), torch.ones(2, device=devices[1])
    for other in (there, torch.ones(2)):
        with pytest.raises(MisplacedError):
            here + other
    assert (here + there.to(devices[0])).device == devices[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_conversation(name: str, devices: list[torch.device]) -> None:
    """Hidden states, masks or rotations of another place; rows moved or forgotten in one slab alone."""
    model = make_model(name, layers=3)
    taps = (0, 1, 2, -1)
    lean = LeanTarget(split(model, CPU, *devices[:2]), taps)
    whole = StockTarget(model, taps)
    assert [slab.rows.device for slab in lean.slabs] == [CPU, *devices[:2]]
    assert lean.device == CPU
    with torch.inference_mode():
        for seed, tokens in enumerate(([7, 3, 50], [5] * 300, [1])):
            for a, b in zip(lean.extend(tokens), whole.extend(tokens), strict=True):
                same((a.logits, a.features), (b.logits, b.features))
            tree = random_tree(seed)
            same(lean.verify(tree), whole.verify(tree))
            path = path_to(tree, len(tree) - 1)
            lean.keep(path)
            whole.keep(path)
            lean.rewind(lean.length - 1)
            whole.rewind(whole.length - 1)


def test_neighbours_share_a_stage(devices: list[torch.device]) -> None:
    """A copy before every layer, where one for each device is enough."""
    first, second = devices[:2]
    lean = LeanTarget(split(make_model("llama", layers=4), first, first, second, second))
    assert [len(stage) for stage in lean.decoder.stages] == [2, 2]


@pytest.mark.parametrize("method", ["eagle2", "hydra", "lookahead", "oracle"])
@pytest.mark.parametrize("name", ["llama-tied"])
def test_replies_are_those_of_one_device(
    split_benches: dict[str, Bench], benches: dict[str, Bench], name: str, method: str
) -> None:
    """Whatever drafts, two turns: features, embeddings or noise that are not where the drafter is."""
    bench, settings = split_benches[name], GenerationSettings(temperature=0.7, max_new_tokens=10, seed=5)
    bench.engine.reset()
    prompt = [3, 14, 15, 9, 26, 5]
    for _ in range(2):
        expected = plain_reply(benches[name].target, prompt, settings)
        bench.oracle.future = prompt + expected
        assert reply(bench.engine, prompt, settings, method) == expected
        prompt = [*prompt, *expected, 4]


@pytest.mark.parametrize("kind", ["stock", "lean"])
@pytest.mark.parametrize("name", MODELS)
def test_layers_are_loaded_where_they_belong(
    name: str,
    kind: Literal["stock", "lean"],
    devices: list[torch.device],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A whole copy on one device; an embedding away from its tied LM head; hooks that move nothing."""
    monkeypatch.setenv("HF_DEACTIVATE_ASYNC_LOAD", "1")  # the devices are those of one thread
    model = make_model(name)
    model.save_pretrained(tmp_path)
    places = (*devices, CPU)[: len(model.model.layers)]
    loaded = load_model(tmp_path, torch.float32, CPU, layers=places)
    found = [{weight.device for weight in layer.parameters()} for layer in loaded.model.layers]
    assert found == [{place} for place in places]
    assert loaded.lm_head.weight.device == loaded.get_input_embeddings().weight.device == CPU
    target, whole, tree = make_target(loaded, kind), StockTarget(model), random_tree(3)
    assert target.takes_trees
    with torch.inference_mode():
        for one in (target, whole):
            list(one.extend([1, 2, 3]))
        close(target.verify(tree)[0], whole.verify(tree)[0])
        for one in (target, whole):
            one.keep([0, 2])
        close(*(next(one.extend([3])).logits for one in (target, whole)))


def test_what_cannot_be_split_says_so(devices: list[torch.device], tmp_path: Path) -> None:
    """Layers of another number, spread by a map that names none of them."""
    make_model("llama").save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModelError, match="cannot be split"):
        load_model(tmp_path, torch.float32, CPU, layers=devices * 3)


def test_half_a_layer_is_refused(devices: list[torch.device]) -> None:
    """A layer in two places, as others' maps may have it, which our decoder takes for one in one."""
    model = make_model("llama")
    model.model.layers[1].mlp.to(devices[0])
    with pytest.raises(UnsupportedModelError, match="each layer on one device"):
        LeanTarget(model)
