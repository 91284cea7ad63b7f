"""Heads in the layout of vLLM's speculators: the same networks as published, and norms of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor
from transformers import LlamaConfig, PreTrainedModel, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

from engine import Eagle2, Engine, StockTarget, load_eagle_head, recognise_head
from engine.drafters.eagle3_head import Eagle3Head
from engine.drafters.eagle_head import EagleHead
from tests.engine.stubs import plain_reply, rounds
from tests.engine.test_equality import PROMPTS, make_settings
from tests.engine.tiny import HIDDEN, make_model, write_head, write_layout
from tests.engine.tiny_eagle3 import LAYERS, TAPS_FIELD, eagle3_config, eagle3_tensors, write_eagle3
from tests.engine.tiny_speculators import (
    LATER,
    LLAMA3,
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


@pytest.mark.parametrize(
    ("layout", "fields"), [("later", {"attention_bias": True}), ("qwen3", {"model_type": "qwen3"})]
)
def test_what_attention_has_beside_weights(
    model: PreTrainedModel, tmp_path: Path, layout: str, fields: dict[str, object]
) -> None:
    """Biases or norms of an EAGLE-3 head that are loaded and not used, where no field of its config tells."""
    config = speculators_config("eagle3", eagle3_config(layout, 97))
    config["transformer_layer_config"] |= fields  # type: ignore[operator]
    told = load(write_head(tmp_path / "a", config, eagle3_tensors(layout, model)), model)
    found = load(write_eagle3(tmp_path / "b", layout, model), model)
    for one, other in zip(run(told), run(found), strict=True):
        assert torch.equal(one, other)
    beside = ("_proj.bias", "q_norm.weight", "k_norm.weight")
    bare = {n: t for n, t in eagle3_tensors(layout, model).items() if not n.endswith(beside)}
    without = load(write_head(tmp_path / "c", eagle3_config(layout, 97), bare), model)
    assert not torch.equal(run(without)[2], run(found)[2])


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


@pytest.mark.parametrize(
    "scaling", [{"rope_type": "linear", "factor": 4.0}, LLAMA3], ids=["linear", "llama3"]
)
@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_scaled_rotation(
    model: PreTrainedModel, tmp_path: Path, scaling: dict[str, object], place: str
) -> None:
    """Frequencies that are not those of the trainer, which takes transformers' own."""
    given = {**scaling, "rope_theta": 500000.0}
    layer = {place: given, "rope_theta": 500000.0} if place == "rope_scaling" else {place: given}
    head = load(write_later(tmp_path, "llama3", model, transformer_layer_config=layer), model)
    config = LlamaConfig(hidden_size=HIDDEN, num_attention_heads=4, head_dim=8, rope_parameters=given)
    expected = LlamaRotaryEmbedding(config)
    assert expected.attention_scaling == 1
    torch.testing.assert_close(head.layer.rotary.frequencies, expected.inv_freq)


def test_a_sliding_window(model: PreTrainedModel, tmp_path: Path) -> None:
    """A window that is ignored, one pair wider, or that counts rows of the cache from its end."""
    layer = {"layer_types": ["sliding_attention"], "sliding_window": 4, "use_sliding_window": True}
    windowed = load(write_later(tmp_path / "a", "llama3", model, transformer_layer_config=layer), model)
    whole = load(write_later(tmp_path / "b", "llama3", model), model)
    places = torch.arange(len(TOKENS))
    near = places > places[:, None] - 4
    assert torch.equal(run(windowed)[2], run(whole, near)[2])
    assert not torch.equal(run(windowed)[2], run(whole)[2])


def test_trees_in_a_window(model: PreTrainedModel, tmp_path: Path) -> None:
    """Drafted rows outside of the window of their own path, or other columns where shapes do not change."""
    layer = {"layer_types": ["sliding_attention"], "sliding_window": 6}
    windowed = write_later(tmp_path / "a", "llama3", model, transformer_layer_config=layer)
    whole = write_later(tmp_path / "b", "llama3", model)
    trees = []
    for folder, static in ((windowed, False), (windowed, True), (whole, False)):
        drafter = Eagle2(load(folder, model), nodes=20, depth=4, beam=6, static=static)
        engine = Engine(StockTarget(model), {"it": drafter})
        done = rounds(engine, PROMPTS[2], make_settings("greedy", 1.0), "it")
        trees.append([r.tree.host for r in done if r.index])
    assert trees[0] == trees[1]
    assert trees[0] != trees[2]


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
