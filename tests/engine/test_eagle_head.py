"""The draft head: the published layouts work as they say, and its cache holds true features only."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from engine import DraftTree, Eagle2, GenerationSettings, Sampler, StockTarget, load_eagle_head
from engine.drafters.eagle_head import EagleHead
from tests.engine.fused import rotary_base
from tests.engine.tiny import HEADS, HIDDEN, head_config, head_tensors, make_model, write_head, write_layout

SAMPLER = Sampler(GenerationSettings())
TOKENS = [(5 * i + i * i) % 90 for i in range(13)]
NOTHING = torch.empty(1, 1)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return make_model("llama")


@pytest.fixture(autouse=True)
def _inference() -> object:
    """As the engine's loop runs."""
    with torch.inference_mode():
        yield


@pytest.fixture(params=HEADS)
def head(request: pytest.FixtureRequest, model: PreTrainedModel, tmp_path: Path) -> EagleHead:
    return load(write_layout(tmp_path / request.param, request.param, model), model)


def load(folder: Path, model: PreTrainedModel) -> EagleHead:
    return load_eagle_head(folder, StockTarget(model), "tiny")


def features_of(tokens: list[int]) -> Tensor:
    return torch.randn(len(tokens), HIDDEN, generator=torch.Generator().manual_seed(2))


def make_drafter(head: EagleHead) -> Eagle2:
    return Eagle2(head, nodes=15, depth=3, beam=4)


def tree_after(drafter: Eagle2, tokens: list[int], features: Tensor) -> DraftTree:
    drafter.observe(tokens, features[: len(tokens) - 1], NOTHING, [0])
    return drafter.propose(tokens, SAMPLER)


def same_tree(found: DraftTree, expected: DraftTree) -> None:
    assert found.host == expected.host
    torch.testing.assert_close(found.values, expected.values, rtol=0, atol=1e-4)


@pytest.mark.parametrize("layout", HEADS)
def test_the_network_is_a_llama_layer_without_input_norm(
    layout: str, model: PreTrainedModel, tmp_path: Path
) -> None:
    """Order of the pair, residual, rope base, kv heads, biases, epsilon: against transformers' layer."""
    config, tensors = head_config(layout, 97), head_tensors(layout, model)
    head = load(write_layout(tmp_path, layout, model), model)
    llama = LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_attention_heads=4,
        num_key_value_heads=config.get("num_key_value_heads", 4),
        rms_norm_eps=config["rms_norm_eps"],
        rope_parameters={"rope_type": "default", "rope_theta": config.get("rope_theta", 10000.0)},
        attention_bias=layout == "qwen2",
    )
    llama._attn_implementation = "eager"
    layer = LlamaDecoderLayer(llama, 0)
    layer.input_layernorm = torch.nn.Identity()
    weights = {
        name.removeprefix("layers.0."): tensor.float()
        for name, tensor in tensors.items()
        if name.startswith("layers.0.")
    }
    if layout == "qwen2":
        weights["self_attn.o_proj.bias"] = torch.zeros(HIDDEN)
    layer.load_state_dict(weights)
    features, positions = features_of(TOKENS), torch.arange(12)
    pairs = torch.cat((model.get_input_embeddings()(torch.tensor(TOKENS[1:])), features[:-1]), dim=-1)
    hidden = torch.nn.functional.linear(
        pairs, tensors["fc.weight"].float(), tensors["fc.bias"].float() if "fc.bias" in tensors else None
    )[None]
    causal = torch.full((12, 12), -torch.inf).triu(1)[None, None]
    rope = LlamaRotaryEmbedding(llama)(hidden, positions[None])
    expected = layer(hidden, attention_mask=causal, position_ids=positions[None], position_embeddings=rope)
    found = head.forward(
        torch.tensor(TOKENS[1:]),
        features[:-1],
        positions,
        head.layer.at(0, 12),
        torch.ones(12, 12).tril().bool(),
    )
    torch.testing.assert_close(found, expected.view(12, HIDDEN), rtol=1e-4, atol=1e-4)


def test_catch_up_in_pieces_is_one_catch_up(head: EagleHead) -> None:
    """A piece at wrong positions, or with drafted rows below it: other trees, and the text still right."""
    features = features_of(TOKENS)
    expected = tree_after(make_drafter(head), TOKENS, features)
    for cuts in ([13], [2, 13], [5, 6, 7, 13], list(range(2, 14))):
        drafter = make_drafter(head)
        for end in cuts:
            found = tree_after(drafter, TOKENS[:end], features)
        same_tree(found, expected)
        assert drafter.length == len(TOKENS) - 1


def test_drafted_rows_never_stay(head: EagleHead) -> None:
    """Keys of drafted tokens, made from guessed features, that later pairs attend to."""
    features, drafter = features_of(TOKENS), make_drafter(head)
    first = tree_after(drafter, TOKENS, features)
    for _ in range(3):
        same_tree(drafter.propose(TOKENS, SAMPLER), first)
    longer = [*TOKENS, *first.host.tokens[1:3], 4]
    found = tree_after(drafter, longer, features_of(longer))
    same_tree(found, tree_after(make_drafter(head), longer, features_of(longer)))


@pytest.mark.parametrize("length", [0, 1, 5, 11, 12])
def test_rewind_is_as_if_never_seen(head: EagleHead, length: int) -> None:
    """Pairs of edited tokens: pair i holds token i + 1, so one row too many is a row of the old text."""
    features, drafter = features_of(TOKENS), make_drafter(head)
    tree_after(drafter, TOKENS, features)
    drafter.rewind(length)
    edited = [*TOKENS[: length + 1], 55, 66, 77]
    other = features_of([*edited, 0]).clone()
    other[length:] += 1
    other[:length] = features[:length]
    found = tree_after(drafter, edited, other)
    same_tree(found, tree_after(make_drafter(head), edited, other))


@pytest.mark.parametrize("length", [511, 512, 513, 514, 1030])
def test_long_catch_ups(model: PreTrainedModel, tmp_path: Path, length: int) -> None:
    """The boundary of the head's own chunks, and a cache that grows in between."""
    tokens = [(7 * i + i * i) % 90 for i in range(length)]
    features = features_of(tokens)
    folder = write_layout(tmp_path, "qwen2", model)
    drafter, single = make_drafter(load(folder, model)), make_drafter(load(folder, model))
    for end in [*range(2, length, 97), length]:
        tree_after(single, tokens[:end], features)
    same_tree(tree_after(drafter, tokens, features), tree_after(single, tokens, features))


def test_one_token_prompt_is_one_pair(head: EagleHead) -> None:
    """No pair yet at the prefill, one with the first token: the smallest catch-up there is."""
    features, drafter = features_of(TOKENS), make_drafter(head)
    drafter.observe(TOKENS[:1], features[:0], NOTHING, [0])
    assert drafter.length == 0
    tree = tree_after(drafter, TOKENS[:2], features)
    assert drafter.length == 1
    assert tree.host.tokens[0] == TOKENS[1]
    assert len(tree) == 16


def test_the_embedding_in_the_file_is_dropped(model: PreTrainedModel, tmp_path: Path) -> None:
    """A copy of the embedding that is kept costs a gigabyte, and one that differs gives other drafts."""
    head = load(write_layout(tmp_path, "vicuna", model), model)
    assert head.embedding is model.get_input_embeddings()
    assert head.words.lm_head is model.get_output_embeddings()


@pytest.mark.parametrize(
    ("layout", "change", "expected"),
    [
        ("vicuna", {}, 10000.0),
        ("vicuna", {"rope_theta": 10000.0}, 10000.0),
        ("llama3", {}, 500000.0),
        ("vicuna", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, 5e5),
    ],
)
def test_rope_base(
    model: PreTrainedModel, tmp_path: Path, layout: str, change: dict[str, object], expected: float
) -> None:
    """A base taken from the target, or 10000 where the file says otherwise."""
    folder = write_head(tmp_path, head_config(layout, 97) | change, head_tensors(layout, model))
    assert rotary_base(load(folder, model)) == pytest.approx(expected, rel=1e-5)


def test_rope_base_and_epsilon_matter(model: PreTrainedModel, tmp_path: Path) -> None:
    """A field of config.json that is read and never used."""
    trees = []
    tensors = head_tensors("vicuna", model)
    tensors["layers.0.post_attention_layernorm.weight"] *= 3
    for name, change in (("a", {}), ("b", {"rope_theta": 20.0}), ("c", {"rms_norm_eps": 5.0})):
        folder = write_head(tmp_path / name, head_config("vicuna", 97) | change, tensors)
        trees.append(tree_after(make_drafter(load(folder, model)), TOKENS, features_of(TOKENS)))
    assert all(not torch.allclose(tree.values, trees[0].values, atol=1e-3) for tree in trees[1:])


@pytest.mark.parametrize("name", ["fc.bias", *(f"layers.0.self_attn.{p}_proj.bias" for p in "qv")])
def test_biases_are_used(model: PreTrainedModel, tmp_path: Path, name: str) -> None:
    """A bias that is loaded and never added, or taken from config's "bias" instead of the file.

    That of k is compared above: alone it shifts all scores of a query by nearly the same.
    """
    tensors = head_tensors("qwen2", model)
    without = {key: tensor for key, tensor in tensors.items() if key != name}
    trees = [
        tree_after(make_drafter(load(folder, model)), TOKENS, features_of(TOKENS))
        for folder in (
            write_head(tmp_path / "with", head_config("qwen2", 97) | {"bias": False}, tensors),
            write_head(tmp_path / "without", head_config("qwen2", 97) | {"bias": True}, without),
        )
    ]
    assert not torch.allclose(trees[0].values, trees[1].values, atol=1e-3)


def test_draft_vocabulary(model: PreTrainedModel, tmp_path: Path) -> None:
    """Draft ids taken for target ids; log-probabilities over the whole vocabulary; rows of no token drawn."""
    folder = write_layout(tmp_path, "shipped", model)
    head = load(folder, model)
    ids = head_tensors("shipped", model)["draft_vocab"].tolist()
    assert head.vocabulary == 40
    drafter = Eagle2(head, nodes=200, depth=3, beam=12)
    tree = tree_after(drafter, TOKENS, features_of(TOKENS))
    proposed = sorted({*ids, *TOKENS})
    assert set(tree.host.tokens[1:]) <= set(proposed)
    assert tree.growth is not None
    assert set(tree.growth.tokens.tolist()) <= set(proposed)
    assert set(tree.growth.tokens.tolist()) - set(ids)
    drafter.rewind(0)
    drafter.head.words.read([])
    hidden = torch.randn(2, HIDDEN, generator=torch.Generator().manual_seed(0))
    expected = (hidden @ model.get_output_embeddings().weight.T)[:, ids].log_softmax(-1)
    found = head.logits(hidden)[:, :40].log_softmax(-1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="beam 41 is larger than the draft vocabulary of 40 tokens"):
        Eagle2(head, nodes=41, depth=1, beam=41)


def test_values_and_growth_agree(head: EagleHead) -> None:
    """Shown confidences that belong to other nodes than the tree's."""
    tree = tree_after(make_drafter(head), TOKENS, features_of(TOKENS))
    growth = tree.growth
    assert growth is not None
    assert len(growth.tokens) == 4 + 2 * 16
    assert growth.expanded.sum() == 8
    assert growth.kept.sum() == 15
    assert growth.tokens[growth.kept].tolist() == tree.host.tokens[1:]
    assert growth.values[growth.kept].tolist() == tree.values[1:].tolist()
    assert all(growth.expanded[parent] for parent in growth.parents.tolist() if parent >= 0)
    assert all(
        growth.values[i] <= growth.values[parent]
        for i, parent in enumerate(growth.parents.tolist())
        if parent >= 0
    )


@pytest.mark.parametrize("nodes", [1, 3, 36])
def test_bf16_and_certain_drafts_stay_connected(model: PreTrainedModel, tmp_path: Path, nodes: int) -> None:
    """Log-probabilities of 0 tie a child with its parent; the reference hangs such children elsewhere."""
    folder = write_layout(tmp_path, "qwen2", model)
    for scale in (1.0, 30.0, 1000.0):
        sharp = make_model("llama")
        sharp.get_output_embeddings().weight.data.mul_(scale)
        drafter = Eagle2(load(folder, sharp.bfloat16()), nodes=nodes, depth=3, beam=4)
        for length in range(2, 14):
            tree = tree_after(drafter, TOKENS[:length], features_of(TOKENS).bfloat16())
            kept = set(tree.growth.kept.nonzero().flatten().tolist())
            assert all(int(tree.growth.parents[node]) in kept | {-1} for node in kept)
            assert len(tree) == nodes + 1
            assert tree.values.dtype == torch.float32
