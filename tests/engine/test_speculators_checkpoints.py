"""Heads in the layout of vLLM's speculators that cannot be used: one sentence, with the model they name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine import CheckpointError, StockTarget, load_eagle_head
from tests.engine.test_checkpoints import having, without
from tests.engine.tiny import make_model, write_head
from tests.engine.tiny_eagle3 import LAYERS
from tests.engine.tiny_speculators import (
    BASE,
    LATER,
    LLAMA3,
    eagle_config,
    eagle_tensors,
    later_tensors,
    speculators_config,
    write_later,
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
    "rope by length": (
        {"rope_scaling": {"rope_type": "dynamic", "factor": 8.0}},
        ["rope_scaling", "dynamic"],
    ),
    "rope of no size": ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, ["original_max_position"]),
    "rope the wrong way round": (
        {"rope_scaling": {**LLAMA3, "low_freq_factor": 4.0}},
        ["rope_scaling", "not supported"],
    ),
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
