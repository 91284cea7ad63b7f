"""EAGLE-3: the equality suite with its heads, and the hidden states they read.

Their trees are compared with the reference's in test_golden_trees.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine import Eagle2, Engine, GenerationSettings, StockTarget, load_eagle_head
from tests.engine.conftest import Bench
from tests.engine.stubs import plain_reply, reply, rounds
from tests.engine.test_equality import PROMPTS, SAMPLINGS, make_settings, plain
from tests.engine.tiny import HIDDEN, MODELS, make_model, write_head, write_layout
from tests.engine.tiny_eagle3 import (
    EAGLE3_HEADS,
    LAYERS,
    TAPS_FIELD,
    eagle3_config,
    eagle3_tensors,
    load_eagle3,
    make_benches,
    write_eagle3,
)

GREEDY = GenerationSettings(max_new_tokens=16)


@pytest.fixture(scope="module")
def deep_benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    return make_benches(tmp_path_factory.mktemp("eagle3"))


@pytest.fixture(params=MODELS)
def deep(request: pytest.FixtureRequest, deep_benches: dict[str, Bench]) -> Bench:
    """Every tiny model of `LAYERS` layers in turn, its engine empty."""
    deep_benches[request.param].engine.reset()
    return deep_benches[request.param]


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return make_model("llama", layers=LAYERS)


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("method", ["eagle3", "eagle3-sized"])
def test_drafting_never_changes_the_text(deep: Bench, method: str, sampling: str, penalty: float) -> None:
    """As for the other drafters; a draft id taken for a target id is one more way to be wrong."""
    settings = make_settings(sampling, penalty)
    for index, prompt in enumerate(PROMPTS):
        found = [token for r in rounds(deep.engine, prompt, settings, method) for token in r.new]
        assert found == plain(deep, index, settings)
        assert len(found) == 40


@pytest.mark.parametrize("name", ["mixtral", "qwen3-moe"])
def test_nor_that_of_routed_models(deep_benches: dict[str, Bench], name: str) -> None:
    """States of a layer of experts, which the reference cannot read: as above, at few settings."""
    bench, settings = deep_benches[name], make_settings("T0.7", 1.3)
    accepted = 0
    for method in ("eagle3", "eagle3-sized"):
        bench.engine.reset()
        done = list(rounds(bench.engine, PROMPTS[1], settings, method))
        assert [token for r in done for token in r.new] == plain(bench, 1, settings)
        accepted += sum(len(r.path) - 1 for r in done)
    assert accepted > 0


def test_the_suite_exercises_acceptance(deep_benches: dict[str, Bench]) -> None:
    """An equality in which nothing is ever accepted, or all of it, would prove nothing."""
    accepted, refused = 0, 0
    for name in MODELS:
        bench = deep_benches[name]
        for prompt in PROMPTS:
            bench.engine.reset()
            for r in rounds(bench.engine, prompt, make_settings("T0.7", 1.0), "eagle3"):
                accepted += len(r.path) - 1
                refused += len(r.tree) > 1 and len(r.path) == 1
    assert accepted >= 5
    assert refused >= 5


def test_turns_edits_and_switching(deep: Bench) -> None:
    """Tokens the head never saw, or saw and that were edited away: its trees are those of a fresh one."""
    prompt = [8, 2, 61, 30, 4]
    for method in ("eagle3", "none", "eagle3-sized", "eagle3", "oracle", "eagle3", "eagle3-sized"):
        expected = plain_reply(deep.target, prompt, GREEDY)
        deep.oracle.future = prompt + expected
        assert reply(deep.engine, prompt, GREEDY, method) == expected
        prompt = [*prompt, *expected[:-3], len(prompt) % 90]
    trees = [[r.tree.host for r in rounds(deep.engine, prompt, GREEDY, "eagle3")]]
    deep.engine.reset()
    trees.append([r.tree.host for r in rounds(deep.engine, prompt, GREEDY, "eagle3")])
    assert trees[0] == trees[1]


def test_features_are_what_goes_into_the_layers(deep: Bench) -> None:
    """States after a layer for those before it, or normed ones: the text would be right, the drafts bad."""
    layers = deep.target.model.model.layers
    seen: dict[int, Tensor] = {}
    hooks = [
        layers[i].register_forward_pre_hook(lambda _, args, i=i: seen.__setitem__(i, args[0][0]))
        for i in (2, LAYERS // 2, LAYERS - 3)
    ]
    assert len(reply(deep.engine, PROMPTS[1], GREEDY, "eagle3")) == 16
    known = deep.engine.tokens[:-1]
    with torch.inference_mode():
        deep.target.model(input_ids=torch.tensor([known]), use_cache=False)
    for hook in hooks:
        hook.remove()
    expected = torch.cat([seen[2], seen[LAYERS // 2], seen[LAYERS - 3]], dim=-1)
    torch.testing.assert_close(deep.engine.features.rows(len(known)), expected, rtol=1e-3, atol=1e-3)


def test_one_engine_reads_one_set_of_hidden_states(model: PreTrainedModel, tmp_path: Path) -> None:
    """An EAGLE-2 head that is fed the three layers of an EAGLE-3 head beside it."""
    target = StockTarget(model)
    heads = [
        load_eagle_head(folder, target, "tiny")
        for folder in (
            write_layout(tmp_path / "2", "llama3", model),
            write_eagle3(tmp_path / "3", "llama3", model),
        )
    ]
    with pytest.raises(ValueError, match="different hidden states"):
        Engine(target, {str(i): Eagle2(head, 8, 3, 4) for i, head in enumerate(heads)})


def test_drafts_are_target_ids(model: PreTrainedModel, tmp_path: Path) -> None:
    """Draft ids taken for target ids: hardly anything would ever be accepted."""
    head = load_eagle3(write_eagle3(tmp_path, "llama3", model), model)
    allowed = eagle3_tensors("llama3", model)["t2d"].nonzero().flatten()
    assert head.vocabulary == 40
    assert torch.equal(head.draft_vocab, allowed)
    engine = Engine(StockTarget(model), {"eagle3": Eagle2(head, 200, 3, 12)})
    for r in rounds(engine, PROMPTS[1], GREEDY, "eagle3"):
        assert r.index == 0 or set(r.tree.host.tokens[1:]) <= set(allowed.tolist())
    with pytest.raises(ValueError, match="beam 41 is larger than the draft vocabulary of 40 tokens"):
        Eagle2(head, nodes=41, depth=1, beam=41)


def test_another_number_of_taps(model: PreTrainedModel, tmp_path: Path) -> None:
    """Three layers assumed where a head fuses two."""
    tensors = eagle3_tensors("llama3", model) | {"fc.weight": 0.1 * torch.ones(HIDDEN, 2 * HIDDEN)}
    head = load_eagle3(
        write_head(tmp_path, eagle3_config("llama3", 97) | {TAPS_FIELD: [2, 5]}, tensors), model
    )
    engine = Engine(StockTarget(model), {"eagle3": Eagle2(head, 8, 3, 4)})
    assert reply(engine, PROMPTS[1], GREEDY, "eagle3") == plain_reply(engine.target, PROMPTS[1], GREEDY)


@pytest.mark.parametrize("layout", EAGLE3_HEADS)
def test_bf16(tmp_path: Path, layout: str) -> None:
    """A head published in another number format than the target runs in, or values that are not fp32."""
    model = make_model("llama", layers=LAYERS)
    tensors = {
        name: t.half() if t.is_floating_point() else t for name, t in eagle3_tensors(layout, model).items()
    }
    folder = write_head(tmp_path, eagle3_config(layout, 97), tensors, binary=True)
    head = load_eagle3(folder, model.bfloat16())
    engine = Engine(StockTarget(model), {"eagle3": Eagle2(head, 20, 4, 6)})
    trees = [r.tree for r in rounds(engine, PROMPTS[1], GREEDY, "eagle3")][1:]
    assert all(tree.values.dtype == torch.float32 and len(tree) > 1 for tree in trees[:-1])
