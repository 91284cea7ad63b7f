"""EAGLE-3 heads on disk: every published layout loads, and what cannot be used is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine import CheckpointError, StockTarget, load_eagle_head, recognise_head
from tests.engine.fused import rotary_base, tensors_of
from tests.engine.test_checkpoints import having, without
from tests.engine.tiny import HEADS, make_model, write_head, write_layout
from tests.engine.tiny_eagle3 import (
    EAGLE3_HEADS,
    LAYERS,
    TAPS_FIELD,
    eagle3_config,
    eagle3_tensors,
    load_eagle3,
    write_eagle3,
)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return make_model("llama", layers=LAYERS)


def message(folder: Path, model: PreTrainedModel) -> str:
    """What the loader says; one line, whatever happened."""
    with pytest.raises(CheckpointError) as error:
        load_eagle_head(folder, StockTarget(model), "tiny-llama")
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("layout", EAGLE3_HEADS)
@pytest.mark.parametrize("binary", [True, False])
def test_every_layout_in_both_file_formats(
    model: PreTrainedModel, tmp_path: Path, layout: str, binary: bool
) -> None:
    """A loader that takes only the layout it was written with, or copies what is shared."""
    tensors = eagle3_tensors(layout, model)
    head = load_eagle3(write_head(tmp_path, eagle3_config(layout, 97), tensors, binary), model)
    dropped = {"d2t", "t2d", "embed_tokens.weight"}
    found = tensors_of(head)
    given = {name.replace("layers.0.", "midlayer."): tensor for name, tensor in tensors.items()}
    assert found.keys() == given.keys() - dropped
    for name in found:
        assert torch.equal(found[name], given[name])
    assert head.taps == (2, 3, 4)
    assert rotary_base(head) == pytest.approx(1000000.0 if layout == "wide-heads" else 10000.0)
    assert head.layer.layer.shape.head_dim == {"narrow": 6, "wide-heads": 12}.get(layout, 8)
    if layout == "narrow":
        assert torch.equal(head.embedding.weight, tensors["embed_tokens.weight"])
    else:
        assert head.embedding is model.get_input_embeddings()


def test_heads_are_recognised(model: PreTrainedModel, tmp_path: Path) -> None:
    """A kind told by names of folders or by config.json."""
    for layout in HEADS:
        assert recognise_head(write_layout(tmp_path / layout, layout, model)) == "eagle2"
    for layout in EAGLE3_HEADS:
        assert recognise_head(write_eagle3(tmp_path / "3" / layout, layout, model)) == "eagle3"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (2, 3, 4)),
        ({TAPS_FIELD: None, "eagle_config": None}, (2, 3, 4)),
        ({TAPS_FIELD: [2, 4, 6]}, (2, 4, 6)),
        ({"eagle_config": {TAPS_FIELD: [0, 3, 5]}}, (0, 3, 5)),
        ({"eagle_config": {TAPS_FIELD: [1, 3, 5]}}, (2, 4, 6)),
    ],
)
def test_taps(
    model: PreTrainedModel, tmp_path: Path, fields: dict[str, object], expected: tuple[int, ...]
) -> None:
    """Hidden states other than those the head was trained on."""
    folder = write_head(tmp_path, eagle3_config("llama3", 97) | fields, eagle3_tensors("llama3", model))
    assert load_eagle3(folder, model).taps == expected


UP, Q, K = (
    "midlayer.mlp.up_proj.weight",
    "midlayer.self_attn.q_proj.weight",
    "midlayer.self_attn.k_proj.weight",
)
BAD_TENSORS: dict[str, tuple[Callable[[dict[str, Tensor]], None], list[str]]] = {
    "no up_proj": (without(UP), [UP, "missing"]),
    "no hidden_norm": (without("midlayer.hidden_norm.weight"), ["hidden_norm.weight", "missing"]),
    "no final norm": (without("norm.weight"), ["tensor norm.weight", "missing"]),
    "no LM head": (without("lm_head.weight"), ["lm_head.weight", "missing"]),
    "no fc": (without("fc.weight"), ["fc.weight", "missing"]),
    "no d2t": (without("d2t"), ["d2t is missing", "40 tokens"]),
    "a bias of q alone": (
        having("midlayer.self_attn.q_proj.bias", torch.ones(32)),
        ["k_proj.bias is missing"],
    ),
    "a norm of k alone": (
        having("midlayer.self_attn.k_norm.weight", torch.ones(8)),
        ["q_norm.weight is missing"],
    ),
    "a short bias": (
        having("midlayer.self_attn.o_proj.bias", torch.ones(31)),
        ["o_proj.bias", "[31]", "[32]"],
    ),
    "a bias of fc": (having("fc.bias", torch.ones(32)), ["fc.bias", "does not belong to an EAGLE-3 head"]),
    "a layer of EAGLE-2": (having("layers.0.mlp.up_proj.weight", torch.ones(2)), ["layers.0.mlp.up_proj"]),
    "fc of EAGLE-2": (having("fc.weight", torch.ones(32, 64)), ["fc.weight", "[32, 64]", "[32, 96]"]),
    "fc of another target": (having("fc.weight", torch.ones(16, 96)), ["tiny-llama", "size of 16", "has 32"]),
    "flat fc": (having("fc.weight", torch.ones(32)), ["fc.weight", "[32]", "[32, 96]"]),
    "short norm": (having("norm.weight", torch.ones(31)), ["norm.weight", "[31]", "[32]"]),
    "narrow q": (having(Q, torch.ones(32, 32)), [Q, "[32, 32]", "[32, 64]"]),
    "wrong k rows": (having(K, torch.ones(24, 64)), ["k_proj", "24", "kv heads"]),
    "wide LM head": (
        having("lm_head.weight", torch.ones(40, 33)),
        ["lm_head.weight", "[40, 33]", "[40, 32]"],
    ),
    "a number for a matrix": (having(UP, torch.tensor(1.0)), [UP, "single number"]),
    "short d2t": (having("d2t", torch.zeros(39, dtype=torch.long)), ["d2t", "40 whole numbers"]),
    "d2t in fractions": (having("d2t", torch.zeros(40)), ["d2t", "40 whole numbers"]),
    "d2t as a number": (having("d2t", torch.tensor(3)), ["d2t", "40 whole numbers"]),
    "ids too large": (having("d2t", torch.full((40,), 58)), ["d2t", "below 97"]),
    "negative ids": (having("d2t", torch.full((40,), -1)), ["d2t", "below 97"]),
    "embedding of another vocabulary": (
        having("embed_tokens.weight", torch.ones(98, 32)),
        ["tiny-llama", "[98, 32]", "[97, 32]"],
    ),
}


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_bad_tensors(model: PreTrainedModel, tmp_path: Path, case: str) -> None:
    """A head that is loaded anyway, with another meaning, or an error without names."""
    change, words = BAD_TENSORS[case]
    tensors = eagle3_tensors("llama3", model)
    change(tensors)
    said = message(write_head(tmp_path, eagle3_config("llama3", 97), tensors), model)
    assert all(word in said for word in [*words, str(tmp_path)]), said


BAD_CONFIGS: dict[str, tuple[dict[str, object], list[str]]] = {
    "another vocabulary": ({"vocab_size": 32000}, ["vocabulary of 32000", "has 97"]),
    "another target": ({"target_hidden_size": 64}, ["hidden size of 64", "tiny-llama has 32"]),
    "no heads": ({"num_attention_heads": None}, ["num_attention_heads"]),
    "layers beyond the target's": ({TAPS_FIELD: [2, 3, 7]}, ["[2, 3, 7]", "tiny-llama has 7 layers"]),
    "layers as text": ({TAPS_FIELD: "2, 3, 4"}, [TAPS_FIELD, "list of layer numbers"]),
    "a negative layer": ({"eagle_config": {TAPS_FIELD: [2, 3, -1]}}, [TAPS_FIELD, "list of layer numbers"]),
    "no layers": ({TAPS_FIELD: []}, [TAPS_FIELD, "list of layer numbers"]),
    "four layers": ({TAPS_FIELD: [2, 3, 4, 5]}, ["fc.weight", "[32, 96]", "[32, 128]"]),
    "a norm that is not there": ({"norm_before_fc": True}, ["input_norm.weight is missing"]),
    "residual as text": ({"norm_before_residual": "yes"}, ["norm_before_residual", "true or false"]),
    "target_hidden_size as text": ({"target_hidden_size": "32"}, ["target_hidden_size", "whole number"]),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_bad_configs(model: PreTrainedModel, tmp_path: Path, case: str) -> None:
    """A head that reads other layers than it was trained on, or a traceback from inside the loader."""
    fields, words = BAD_CONFIGS[case]
    config = eagle3_config("llama3", 97) | fields
    said = message(write_head(tmp_path, config, eagle3_tensors("llama3", model)), model)
    assert all(word in said for word in [*words, str(tmp_path)]), said


def test_narrow_heads_fit_their_target(model: PreTrainedModel, tmp_path: Path) -> None:
    """A head of its own width whose target is another one, or that has no embedding of its own."""
    tensors = eagle3_tensors("narrow", model)
    config = eagle3_config("narrow", 97)
    said = message(write_head(tmp_path / "a", config | {"target_hidden_size": 64}, tensors), model)
    assert "hidden size of 64, but tiny-llama has 32" in said
    other = tensors | {"embed_tokens.weight": torch.ones(97, 32)}
    assert "[97, 32], expected [97, 24]" in message(write_head(tmp_path / "b", config, other), model)
    del tensors["embed_tokens.weight"]
    assert "embed_tokens.weight is missing" in message(write_head(tmp_path / "c", config, tensors), model)


def test_a_target_of_too_few_layers(tmp_path: Path) -> None:
    """The last normed state read as a layer's input, since -1 and 2 are entries of a list of three."""
    shallow = make_model("llama")
    said = message(write_eagle3(tmp_path, "llama3", shallow), shallow)
    assert "before layers [2, 1, -1]" in said
    assert "tiny-llama has 2 layers" in said
