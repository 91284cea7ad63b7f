"""Heads in the layout of vLLM's speculators: the same networks as published, and norms of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor
from transformers import LlamaConfig, PreTrainedModel, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

from engine import CheckpointError, Eagle2, Engine, StockTarget, load_eagle_head, recognise_head
from engine.drafters.eagle3_head import Eagle3Head
from engine.drafters.eagle_head import EagleHead
from tests.engine.stubs import plain_reply, rounds
from tests.engine.test_checkpoints import having, without
from tests.engine.test_equality import PROMPTS, make_settings
from tests.engine.tiny import HIDDEN, make_model, write_head, write_layout
from tests.engine.tiny_eagle3 import LAYERS, TAPS_FIELD, write_eagle3
from tests.engine.tiny_speculators import (
    BASE,
    LATER,
    eagle_config,
    eagle_tensors,
    later_tensors,
    speculators_config,
    write_eagle,
    write_later,
)

TOKENS = torch.arange(3, 15)
VARIANTS: dict[str, dict[str, object]] = {
    "plain": {},
    "residual": {"norm_before_residual": True},
    "joined": {"norm_before_fc": True},
    "taps": {"fc_norm": True},
    "output": {"norm_output": True},
    "default": LATER,
    "all": LATER | {"fc_norm": True},
    "own embedding": LATER | {"embed_requires_grad": True},
    "biases": LATER | {"transformer_layer_config": {"attention_bias": True}},
    "qwen3": {"norm_output": True, "transformer_layer_config": {"model_type": "qwen3", "head_dim": 8}},
}


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return make_model("llama", layers=LAYERS)


@pytest.fixture(autouse=True)
def _inference() -> object:
    """As the engine's loop runs."""
    with torch.inference_mode():
        yield


def load(folder: Path, model: PreTrainedModel) -> EagleHead | Eagle3Head:
    return load_eagle_head(folder, StockTarget(model), "tiny-llama")


def message(folder: Path, model: PreTrainedModel) -> str:
    """What the loader says; one line, whatever happened."""
    with pytest.raises(CheckpointError) as error:
        load(folder, model)
    assert "\n" not in str(error.value)
    return str(error.value)


def run(head: EagleHead | Eagle3Head, visible: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs over true features, what a second step over them gives, and logits of both."""
    width = HIDDEN * (3 if isinstance(head, Eagle3Head) else 1)
    features = torch.randn(len(TOKENS), width, generator=torch.Generator().manual_seed(2))
    causal = torch.ones(len(TOKENS), len(TOKENS)).tril().bool()
    causal = causal if visible is None else causal & visible
    positions, outputs = torch.arange(len(TOKENS)), [head.fuse(features)]
    for _ in range(2):
        cache = head.layer.at(0, len(TOKENS))
        outputs.append(head.forward(TOKENS, outputs[-1], positions, cache, causal))
    return outputs[1], outputs[2], torch.cat([head.logits(output) for output in outputs[1:]])


@pytest.mark.parametrize("layout", ["llama3", "vicuna", "qwen2"])
def test_eagle_heads_are_the_published_ones(model: PreTrainedModel, tmp_path: Path, layout: str) -> None:
    """A tensor under the wrong name, a bias dropped, fields read from the wrong config."""
    fields = {"attention_bias": True} if layout == "qwen2" else {}
    config, tensors = eagle_config(layout, 97), eagle_tensors(layout, model)
    config["transformer_layer_config"] |= fields
    if fields:
        tensors["transformer.self_attn.o_proj.bias"] = torch.zeros(HIDDEN)  # Llama's biases are of all four
    tensors["lm_head.weight"] = model.get_output_embeddings().weight.detach().clone()
    folder = write_head(tmp_path / "a", config, tensors, binary=True)
    assert recognise_head(folder) == "eagle2"
    published = load(write_layout(tmp_path / "b", layout, model), model)
    for found, expected in zip(run(load(folder, model)), run(published), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("layout", ["llama3", "vicuna", "narrow", "wide-heads"])
def test_eagle3_heads_are_the_published_ones(model: PreTrainedModel, tmp_path: Path, layout: str) -> None:
    """As above; a draft vocabulary or a width that is read from the wrong place."""
    folder = write_later(tmp_path / "a", layout, model)
    assert recognise_head(folder) == "eagle3"
    published = load(write_eagle3(tmp_path / "b", layout, model), model)
    head = load(folder, model)
    for found, expected in zip(run(head), run(published), strict=True):
        assert torch.equal(found, expected)
    assert head.taps == published.taps
    assert (head.draft_vocab is None) == (layout == "vicuna")


def test_the_published_name_of_the_layer(model: PreTrainedModel, tmp_path: Path) -> None:
    """A head that was converted by its config alone."""
    folder = write_later(tmp_path / "a", "llama3", model)
    published = write_eagle3(tmp_path / "b", "llama3", model)
    (published / "config.json").write_text((folder / "config.json").read_text())
    assert torch.equal(run(load(published, model))[2], run(load(folder, model))[2])


def reference(
    model: PreTrainedModel, tensors: dict[str, Tensor], fields: dict[str, object], features: Tensor
) -> tuple[Tensor, Tensor]:
    """Output that goes back in, and logits, over one pass: by transformers' layers."""
    layer_fields: dict[str, object] = fields.get("transformer_layer_config", {})  # type: ignore[assignment]
    qwen3, bias = layer_fields.get("model_type") == "qwen3", bool(layer_fields.get("attention_bias"))
    shape = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "attention_bias": bias}
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    config = (Qwen3Config if qwen3 else LlamaConfig)(
        hidden_size=HIDDEN, intermediate_size=48, rms_norm_eps=1e-5, rope_parameters=rope, **shape
    )
    config._attn_implementation = "eager"
    layer = (Qwen3DecoderLayer if qwen3 else LlamaDecoderLayer)(config, 0)
    for letter, rows in (("q", 32), ("k", 16), ("v", 16)):
        setattr(layer.self_attn, f"{letter}_proj", torch.nn.Linear(2 * HIDDEN, rows, bias=bias))
    weights = {n.removeprefix("layers.0."): t for n, t in tensors.items() if n.startswith("layers.0.")}
    hidden_norm = weights.pop("hidden_norm.weight")
    layer.load_state_dict(weights)

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (len(weight),), weight, 1e-5)

    if "input_norm.weight" in tensors:
        features = norm(features, tensors["input_norm.weight"])
    if "fc_norm.0.weight" in tensors:
        parts = features.split(HIDDEN, dim=-1)
        features = torch.cat([norm(p, tensors[f"fc_norm.{i}.weight"]) for i, p in enumerate(parts)], dim=-1)
    hidden = features @ tensors["fc.weight"].T
    embedding = tensors.get("embed_tokens.weight", model.get_input_embeddings().weight)
    embedded = layer.input_layernorm(F.embedding(TOKENS, embedding))
    normed = norm(hidden, hidden_norm)
    joined, positions = torch.cat((embedded, normed), dim=-1)[None], torch.arange(len(TOKENS))[None]
    mask = torch.full((len(TOKENS), len(TOKENS)), -torch.inf).triu(1)[None, None]
    angles = LlamaRotaryEmbedding(config)(joined, positions)
    attended = layer.self_attn(joined, position_embeddings=angles, attention_mask=mask)[0][0]
    hidden = (normed if fields.get("norm_before_residual") else hidden) + attended
    hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    last = norm(hidden, tensors["norm.weight"])
    return last if fields.get("norm_output") else hidden, last @ tensors["lm_head.weight"].T


@pytest.mark.parametrize("name", VARIANTS)
def test_norms(model: PreTrainedModel, tmp_path: Path, name: str) -> None:
    """A norm at another place, or one that is loaded and not used."""
    fields = VARIANTS[name]
    head = load(write_later(tmp_path, "llama3", model, **fields), model)
    assert isinstance(head, Eagle3Head)
    features = torch.randn(len(TOKENS), 3 * HIDDEN, generator=torch.Generator().manual_seed(2))
    output, logits = reference(model, later_tensors("llama3", model, fields), fields, features)
    found, _, scores = run(head)
    torch.testing.assert_close(found, output, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scores[: len(TOKENS)], logits, rtol=1e-4, atol=1e-4)


def test_a_sliding_window(model: PreTrainedModel, tmp_path: Path) -> None:
    """A window that is ignored, one pair wider, or that counts rows of the cache from its end."""
    layer = {"layer_types": ["sliding_attention"], "sliding_window": 4, "use_sliding_window": True}
    windowed = load(write_later(tmp_path / "a", "llama3", model, transformer_layer_config=layer), model)
    whole = load(write_later(tmp_path / "b", "llama3", model), model)
    places = torch.arange(len(TOKENS))
    near = places > places[:, None] - 4
    assert torch.equal(run(windowed)[2], run(whole, near)[2])
    assert not torch.equal(run(windowed)[2], run(whole)[2])


def test_taps(model: PreTrainedModel, tmp_path: Path) -> None:
    """Layers that are named beside the config of the layer, and not in it."""
    assert load(write_later(tmp_path, "llama3", model, **{TAPS_FIELD: [2, 4, 6]}), model).taps == (2, 4, 6)


@pytest.mark.parametrize("sampling", ["greedy", "T0.7"])
def test_drafting_never_changes_the_text(tmp_path: Path, sampling: str) -> None:
    """As for the other heads: a layout is one more way to be wrong; nothing accepted would prove nothing."""
    settings, accepted = make_settings(sampling, 1.3), 0
    window = {"layer_types": ["sliding_attention"], "sliding_window": 16}
    for family in ("llama", "qwen3"):
        model = make_model(family, layers=LAYERS)
        target = StockTarget(model)
        folders = [
            write_eagle(tmp_path / family / "1", "vicuna", model),
            write_later(tmp_path / family / "3", "llama3", model, **LATER),
            write_later(tmp_path / family / "w", "wide-heads", model, transformer_layer_config=window),
        ]
        expected = [plain_reply(target, prompt, settings) for prompt in PROMPTS]
        for folder in folders:
            engine = Engine(target, {"it": Eagle2(load(folder, model), nodes=20, depth=4, beam=6)})
            for prompt, reply in zip(PROMPTS, expected, strict=True):
                engine.reset()
                done = list(rounds(engine, prompt, settings, "it"))
                assert [token for r in done for token in r.new] == reply
                accepted += sum(len(r.path) - 1 for r in done)
    assert accepted > 0


UP, NORM = "layers.0.mlp.up_proj.weight", "input_norm.weight"
BAD_TENSORS: dict[str, tuple[Callable[[dict[str, Tensor]], None], list[str]]] = {
    "no up_proj": (without(UP), [UP, "missing"]),
    "no layer": (lambda tensors: [tensors.pop(n) for n in [*tensors] if "layers.0" in n], ["layers.0.*"]),
    "no norm before fc": (without(NORM), [NORM, "missing"]),
    "short norm before fc": (having(NORM, torch.ones(32)), [NORM, "[32]", "[96]"]),
    "a norm that no field names": (
        having("fc_norm.0.weight", torch.ones(32)),
        ["fc_norm.0.weight", "belong"],
    ),
    "another layer": (having("layers.1.mlp.up_proj.weight", torch.ones(2)), ["layers.1.mlp.up_proj.weight"]),
    "a bias": (having("layers.0.self_attn.q_proj.bias", torch.ones(32)), ["q_proj.bias", "belong"]),
    "wide up_proj": (having(UP, torch.ones(48, 33)), [UP, "[48, 33]", "[48, 32]"]),
    "few draft tokens": (having("lm_head.weight", torch.ones(39, 32)), ["lm_head.weight", "39", "40"]),
    "no d2t": (without("d2t"), ["d2t is missing"]),
    "fc of another target": (having("fc.weight", torch.ones(16, 48)), ["size of 16", "tiny-llama has 32"]),
}


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_bad_tensors(model: PreTrainedModel, tmp_path: Path, case: str) -> None:
    """A sentence without tensor, file, or the model that the head was made for."""
    change, words = BAD_TENSORS[case]
    folder = write_later(tmp_path / "head", "llama3", model, **LATER)
    config = json.loads((folder / "config.json").read_text())
    tensors = later_tensors("llama3", model, LATER)
    change(tensors)
    said = message(write_head(folder, config, tensors), model)
    assert all(word in said for word in [*words, str(folder), f"it was made for {BASE}"]), said


BAD_EAGLE: dict[str, tuple[Callable[[dict[str, Tensor]], None], list[str]]] = {
    "no fusion": (without("fusion_fc.weight"), ["fusion_fc.weight", "missing"]),
    "flat fusion": (having("fusion_fc.weight", torch.ones(32)), ["fusion_fc.weight", "no matrix"]),
    "wide fusion": (having("fusion_fc.weight", torch.ones(32, 96)), ["fusion_fc.weight", "[32, 96]"]),
    "no bias": (without("fusion_fc.bias"), ["fusion_fc.bias", "missing"]),
    "no o_proj": (
        without("transformer.self_attn.o_proj.weight"),
        ["transformer.self_attn.o_proj", "missing"],
    ),
    "an input norm": (
        having("transformer.input_layernorm.weight", torch.ones(32)),
        ["transformer.input_layernorm.weight", "belong to an EAGLE-1/2 head"],
    ),
    "another LM head": (having("lm_head.weight", torch.ones(98, 32)), ["lm_head", "[98, 32]", "tiny-llama"]),
}


@pytest.mark.parametrize("case", BAD_EAGLE)
def test_bad_tensors_of_eagle_heads(model: PreTrainedModel, tmp_path: Path, case: str) -> None:
    """As above, or a sentence with a name that is not in the file."""
    change, words = BAD_EAGLE[case]
    tensors = eagle_tensors("vicuna", model)
    change(tensors)
    said = message(write_head(tmp_path, eagle_config("vicuna", 97), tensors), model)
    assert all(word in said for word in [*words, str(tmp_path), f"it was made for {BASE}"]), said


BAD_FIELDS: dict[str, tuple[dict[str, object], list[str]]] = {
    "norms of which nobody knows where": ({"layernorms": True}, ["layernorms True is not supported"]),
    "another kind": ({"speculators_model_type": "dflash"}, ["dflash", "not supported", "eagle or eagle3"]),
    "no kind": ({"speculators_model_type": 3}, ["3 is not supported"]),
    "what nobody has seen": ({"warp_factor": 9}, ["warp_factor 9 is not supported"]),
    "quantized": ({"quantization_config": {"bits": 4}}, ["quantization_config", "not supported"]),
    "flag as text": ({"norm_output": "yes"}, ["norm_output", "true or false"]),
    "two layers": ({"num_hidden_layers": 2}, ["transformer_layer_config.num_hidden_layers 2"]),
    "another activation": ({"hidden_act": "gelu"}, ["transformer_layer_config.hidden_act 'gelu'"]),
    "another family": ({"model_type": "gemma"}, ["transformer_layer_config.model_type 'gemma'"]),
    "part of a rotation": ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor 0.5"]),
    "a scale of the logits": ({"logit_scale": 2.0}, ["transformer_layer_config.logit_scale 2.0"]),
    "scaled rope": ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, ["rope_scaling", "llama3"]),
    "chunks": ({"layer_types": ["chunked_attention"]}, ["layer_types", "chunked_attention"]),
    "a window of no size": ({"layer_types": ["sliding_attention"]}, ["sliding_window", "whole number"]),
    "another vocabulary": ({"vocab_size": 32000}, ["vocabulary of 32000", "tiny-llama has 97"]),
}


@pytest.mark.parametrize("case", BAD_FIELDS)
def test_bad_fields(model: PreTrainedModel, tmp_path: Path, case: str) -> None:
    """A field that is ignored: a head that guesses badly, and nobody knows why."""
    fields, words = BAD_FIELDS[case]
    folder = write_later(tmp_path, "llama3", model, **LATER)
    config = json.loads((folder / "config.json").read_text())
    layer = config["transformer_layer_config"]
    for name, value in fields.items():
        of_layer = name in layer or name in ("partial_rotary_factor", "logit_scale", "layer_types")
        (layer if of_layer else config)[name] = value
    (folder / "config.json").write_text(json.dumps(config))
    said = message(folder, model)
    assert all(word in said for word in [*words, str(tmp_path), f"it was made for {BASE}"]), said


def test_a_config_without_the_layers(model: PreTrainedModel, tmp_path: Path) -> None:
    """A traceback where the config of the layer is missing, is no object, or the head names no model."""
    folder = write_later(tmp_path, "llama3", model)
    whole = json.loads((folder / "config.json").read_text())
    bare = speculators_config("eagle3", {})
    for change in (
        {"transformer_layer_config": None},
        {"transformer_layer_config": 3},
        {"speculators_config": 3},
        {"speculators_config": {"algorithm": "eagle3", "verifier": {}}, "transformer_layer_config": {}},
    ):
        (folder / "config.json").write_text(json.dumps({**bare, **whole, **change}))
        assert "config.json" in message(folder, model)
