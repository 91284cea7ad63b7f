"""Our own decoder against transformers': the same numbers for every family, whatever a conversation does."""

from __future__ import annotations

import random
from copy import deepcopy

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    PhimoeConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3MoeConfig,
)

from engine import LeanTarget, StockTarget, UnsupportedModelError, linear, make_target
from engine.layer import FIRST_ROWS
from engine.linear import can_pack
from tests.engine.test_target import PROMPT, SMALL, close, path_to, plain, random_tree, read
from tests.engine.tiny import FAMILIES, fill, make_model

ROPE = {"rope_theta": 10000.0, "factor": 4.0}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
CONFIGS: dict[str, PretrainedConfig] = {
    "llama3-rope": LlamaConfig(rope_parameters={"rope_type": "llama3", **ROPE, **LLAMA3}, **SMALL),
    "linear-rope": LlamaConfig(rope_parameters={"rope_type": "linear", **ROPE}, **SMALL),
    "dynamic-rope": LlamaConfig(rope_parameters={"rope_type": "dynamic", **ROPE}, **SMALL),
    "yarn-rope": LlamaConfig(
        rope_parameters={"rope_type": "yarn", **ROPE, "original_max_position_embeddings": 64}, **SMALL
    ),
    "biases": LlamaConfig(attention_bias=True, mlp_bias=True, **SMALL),
    "one-group": LlamaConfig(**{**SMALL, "num_key_value_heads": 4}),
    "mistral": MistralConfig(sliding_window=None, **SMALL),
    "qwen2-tied": Qwen2Config(tie_word_embeddings=True, **SMALL),
    "one-kv-head": LlamaConfig(**{**SMALL, "num_key_value_heads": 1}),
    "wide-heads": LlamaConfig(head_dim=24, **SMALL),
    "mixtral-yarn": MixtralConfig(
        num_local_experts=2,
        sliding_window=None,
        head_dim=8,
        rope_parameters={"rope_type": "yarn", **ROPE, "original_max_position_embeddings": 64},
        **SMALL,
    ),
    "qwen3-moe-shares": Qwen3MoeConfig(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True, **SMALL
    ),
}
ALL = (*FAMILIES, *CONFIGS)


def make(name: str, seed: int = 1) -> PreTrainedModel:
    if name in FAMILIES:
        return make_model(name, seed)
    model = AutoModelForCausalLM.from_config(CONFIGS[name]).eval()
    fill(model, seed)
    return model


def lean_target(model: PreTrainedModel, taps: tuple[int, ...] = ()) -> LeanTarget:
    """By a copy, since the decoder takes the weights."""
    return LeanTarget(deepcopy(model), taps)


@pytest.fixture(params=["packed", "plain"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights as on a CPU and as elsewhere."""
    if request.param == "plain":
        monkeypatch.setattr(linear, "_pack", lambda weight: None)


@pytest.fixture(scope="module", params=ALL)
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return make(request.param)


@pytest.fixture(autouse=True)
def _inference() -> object:
    """As the engine's loop runs."""
    with torch.inference_mode():
        yield


def same(lean: tuple[Tensor, Tensor | None], stock: tuple[Tensor, Tensor | None]) -> None:
    """Logits, their argmax (but where two tokens tie to the last digits) and features."""
    close(lean[0], stock[0])
    best, second = stock[0].topk(2).values.unbind(-1)
    differ = lean[0].argmax(-1) != stock[0].argmax(-1)
    assert not (differ & (best - second > 1e-5)).any()
    assert lean[1] is not None
    close(lean[1], stock[1])


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("seed", range(2))
def test_the_same_conversation(model: PreTrainedModel, seed: int) -> None:
    """Chunks, trees, scattered paths, unfinished trees and rewinds in any order, past the slab's first size.

    With every hidden state that a tap can name.
    """
    layers = model.config.num_hidden_layers
    taps = (*range(layers + 1), -1, -layers - 1)
    lean, stock = lean_target(model, taps), StockTarget(model, taps)
    rng = random.Random(seed)
    for step in range(16):
        tokens = [rng.randrange(90) for _ in range(rng.choice((1, 5, 60)))]
        chunk = rng.choice((1, 7, 512)) if len(tokens) < 60 else rng.choice((25, 512))
        for a, b in zip(lean.extend(tokens, chunk), stock.extend(tokens, chunk), strict=True):
            assert a.done == b.done
            same((a.logits, a.features), (b.logits, b.features))
        tree = random_tree(100 * seed + step, rng.choice((1, 2, 16)))
        same(lean.verify(tree), stock.verify(tree))
        path = path_to(tree, rng.randrange(len(tree)))
        if rng.random() < 0.7:
            lean.keep(path)
            stock.keep(path)
        else:
            length = rng.randrange(stock.length // 2, stock.length + 1)
            lean.rewind(length)
            stock.rewind(length)
        assert lean.length == stock.length
    assert lean.length > 40


def test_the_slab_and_the_rotary_table_grow(model: PreTrainedModel) -> None:
    """Rows lost, or positions left out, where the first size or a doubled one is passed."""
    tokens = [(7 * i + i * i) % 90 for i in range(3 * FIRST_ROWS)]
    target = lean_target(model)
    sizes = set()
    for i, part in enumerate(target.extend(tokens, FIRST_ROWS - 3)):
        sizes.add(target.slabs[0].rows.shape[3])
        if i % 2:
            close(part.logits[0], plain(model, tokens[: part.done])[0][-1])
    assert sizes == {FIRST_ROWS, 2 * FIRST_ROWS, 4 * FIRST_ROWS}
    tree = random_tree(3)
    logits, _ = target.verify(tree)
    path = path_to(tree, len(tree) - 1)
    text = tokens + [tree.host.tokens[node] for node in path]
    close(logits[path[-1]], plain(model, text)[0][-1])


def test_a_tree_that_passes_the_slab(model: PreTrainedModel) -> None:
    """A slab that grows in the middle of a round."""
    target = lean_target(model)
    tokens = PROMPT * 20
    read(target, tokens[: FIRST_ROWS - 1])
    tree = random_tree(5)
    target.verify(tree)
    path = path_to(tree, len(tree) - 1)
    target.keep(path)
    text = tokens[: FIRST_ROWS - 1] + [tree.host.tokens[node] for node in path]
    close(read(target, [5]), plain(model, [*text, 5])[0][-1])


def test_rope_scalings_differ() -> None:
    """A scaling that is not applied at all, by either, would pass the comparison of a short text."""
    names = ("llama3-rope", "linear-rope", "yarn-rope", "one-group")
    tables = []
    for name in names:
        target = LeanTarget(make(name))
        target.decoder.rotary.reserve(100)
        tables.append(target.decoder.rotary.table[:100])
    for i, table in enumerate(tables):
        assert all(not torch.allclose(table, other, atol=0.01) for other in tables[:i])


@pytest.mark.parametrize("name", ALL)
def test_weights_are_shared_with_the_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused copies beside the model's own weights would take the memory twice; the model must stay right."""
    monkeypatch.setattr(linear, "_pack", lambda weight: None)
    model = make(name)
    logits = plain(model, PROMPT)[0]
    target = LeanTarget(model)
    stored = {layer.layer.qkv.weight.data_ptr() for layer in target.decoder.layers}
    assert stored == {layer.self_attn.q_proj.weight.data_ptr() for layer in model.model.layers}
    assert target.lm_head.weight.data_ptr() == model.lm_head.weight.data_ptr()
    assert torch.equal(plain(model, PROMPT)[0], logits)


@pytest.mark.skipif(not can_pack(torch.float32), reason="no packed products")
@pytest.mark.parametrize("name", ALL)
def test_packed_weights_are_given_up(name: str) -> None:
    """Packed copies beside the plain weights; a model that is then used as if it still had them."""
    model = make(name)
    size = model.num_parameters()
    LeanTarget(model)
    kept = {id(weight) for weight in model.parameters() if not weight.is_meta}
    names = dict(model.named_parameters())
    stay = {
        id(w) for name, w in names.items() if w.dim() == 1 or ".mlp.experts." in name or ".mlp.gate." in name
    }
    assert kept == stay | {id(model.get_input_embeddings().weight)}
    assert (model.num_parameters(), model.dtype) == (size, torch.float32)
    with pytest.raises(UnsupportedModelError, match="load it again"):
        LeanTarget(model)


def test_what_the_target_says_about_its_model() -> None:
    """Sizes that decide whether a head fits, read from the wrong place."""
    target = LeanTarget(make_model("qwen3", context=333))
    assert (target.vocabulary, target.hidden_size, target.context, target.layers) == (131, 32, 333, 2)
    assert target.embedding.weight.shape == target.lm_head.weight.shape == (131, 32)
    assert target.device == torch.device("cpu")
    assert target.verify(random_tree(0))[1] is None


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (MistralConfig(sliding_window=8, **SMALL), "sliding window"),
        (
            Qwen2Config(use_sliding_window=True, sliding_window=8, max_window_layers=1, **SMALL),
            "sliding window",
        ),
        (Gemma3TextConfig(sliding_window=8, head_dim=8, **SMALL), "does not know Gemma3ForCausalLM"),
        (MixtralConfig(num_local_experts=2, sliding_window=8, **SMALL), "sliding window"),
        (PhimoeConfig(num_local_experts=2, **SMALL), "does not know PhimoeForCausalLM"),
        (LlamaConfig(hidden_act="gelu", **SMALL), "no gelu activation"),
        (
            LlamaConfig(
                rope_parameters={
                    "rope_type": "longrope",
                    **ROPE,
                    "short_factor": [1.0] * 4,
                    "long_factor": [2.0] * 4,
                    "original_max_position_embeddings": 64,
                },
                **SMALL,
            ),
            "rotary embedding",
        ),
    ],
    ids=["mistral-window", "qwen2-window", "gemma3", "mixtral-window", "phimoe", "gelu", "longrope"],
)
def test_other_models_are_refused(config: PretrainedConfig, reason: str) -> None:
    """Wrong text without a sign, from a model that computes something else."""
    with pytest.raises(UnsupportedModelError, match=reason):
        LeanTarget(AutoModelForCausalLM.from_config(config))


def test_other_weights_are_refused() -> None:
    """Quantized weights read as plain ones; weights of two types."""
    model = make_model("llama")
    model.model.layers[1].half()
    with pytest.raises(UnsupportedModelError, match="plain weights of one type"):
        LeanTarget(model)

    class Quantized(torch.nn.Linear):
        pass

    model = make_model("llama")
    model.model.layers[1].mlp.up_proj = Quantized(32, 64, bias=False)
    with pytest.raises(UnsupportedModelError, match="not quantized"):
        LeanTarget(model)


def test_make_target_chooses() -> None:
    """A fallback that is missing, or taken although the decoder knows the model, or was asked for."""
    phimoe = AutoModelForCausalLM.from_config(PhimoeConfig(num_local_experts=2, **SMALL))
    assert isinstance(make_target(make_model("llama")), LeanTarget)
    assert isinstance(make_target(make_model("llama"), "stock"), StockTarget)
    assert isinstance(make_target(phimoe), StockTarget)
    with pytest.raises(UnsupportedModelError, match="Phimoe"):
        make_target(phimoe, "lean")
