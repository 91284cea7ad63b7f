"""Whole replies by our own decoder, whatever drafts: those of plain decoding by transformers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine import GenerationSettings, LeanTarget, fp32_gap, load_eagle_head, load_model
from tests.engine.conftest import DRAFTERS, Bench, make_benches
from tests.engine.stubs import plain_reply, reply
from tests.engine.test_lean import lean_target
from tests.engine.tiny import MODELS, make_model, write_layout


@pytest.fixture(scope="module")
def lean_benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    return make_benches(tmp_path_factory, lean_target)


@pytest.fixture(params=MODELS)
def both(
    request: pytest.FixtureRequest, benches: dict[str, Bench], lean_benches: dict[str, Bench]
) -> tuple[Bench, Bench]:
    """Lean and stock, of the same weights."""
    lean_benches[request.param].engine.reset()
    return lean_benches[request.param], benches[request.param]


@pytest.mark.parametrize(
    "sampling",
    [{}, {"temperature": 0.7, "repetition_penalty": 1.3}, {"temperature": 1.0, "top_p": 0.9}],
    ids=["greedy", "T0.7-penalty", "T1-top-p"],
)
@pytest.mark.parametrize("method", ["none", *DRAFTERS])
def test_replies_are_those_of_transformers(
    both: tuple[Bench, Bench], method: str, sampling: dict[str, float]
) -> None:
    """Whole replies through the engine, second turn included, against plain decoding with a StockTarget."""
    lean, stock = both
    settings = GenerationSettings(**sampling, max_new_tokens=40, seed=1234)
    prompt = [3, 14, 15, 9, 26, 5]
    for _ in range(2):
        expected = plain_reply(stock.target, prompt, settings)
        lean.oracle.future = prompt + expected
        assert reply(lean.engine, prompt, settings, method) == expected
        prompt = [*prompt, *expected, 4, 8]


@pytest.mark.parametrize("layer", [0, 1])
def test_a_broken_forward_loses_nothing(
    lean_benches: dict[str, Bench], benches: dict[str, Bench], layer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that a forward left in some layers before it failed."""
    bench = lean_benches["llama"]
    bench.engine.reset()
    settings, prompt = GenerationSettings(max_new_tokens=30), [3, 14, 15, 9]
    expected = plain_reply(benches["llama"].target, prompt, settings)
    events = bench.engine.generate(prompt, settings, "noise")
    for _ in range(4):
        next(events)
    with monkeypatch.context() as patch:
        patch.setattr(bench.target.decoder.layers[layer].layer.mlp, "down", None)
        with pytest.raises(TypeError):
            next(events)
    assert bench.target.length == len(bench.engine.tokens) - 1
    assert reply(bench.engine, prompt, settings, "noise") == expected


def test_the_gap_of_a_model_without_weights(tmp_path: Path) -> None:
    """A comparison that finds a difference asks the model, whose weights may have been given up."""
    make_model("llama").save_pretrained(tmp_path)
    model = load_model(tmp_path, torch.float32, torch.device("cpu"))
    settings = GenerationSettings(max_new_tokens=1)
    gap = fp32_gap(model, [1, 2, 3], settings)
    LeanTarget(model)
    assert fp32_gap(model, [1, 2, 3], settings) == gap


@pytest.mark.parametrize("layout", ["vicuna", "shipped"])
def test_a_head_shares_the_packed_lm_head(layout: str, tmp_path: Path) -> None:
    """An unpacked copy of the LM head, a gigabyte with a large model; trimmed rows that are others."""
    model = make_model("llama")
    weight = model.lm_head.weight.detach().clone()
    folder = write_layout(tmp_path, layout, model)
    target = LeanTarget(model)
    head = load_eagle_head(folder, target, "tiny-llama")
    if layout == "vicuna":
        assert head.words.lm_head is target.lm_head
    else:
        assert torch.equal(head.words.lm_head.weight, weight[head.draft_vocab])
