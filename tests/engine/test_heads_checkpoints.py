"""Medusa and Hydra heads on disk: every layout loads, and what cannot be used is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine import (
    CheckpointError,
    HydraHeads,
    MedusaHeads,
    StockTarget,
    load_draft_head,
    load_eagle_head,
    recognise_head,
)
from engine.linear import Linear
from tests.engine.tiny import HIDDEN, make_model, write_head
from tests.engine.tiny_heads import (
    HEADS,
    HYDRA_LAYOUTS,
    LAYOUTS,
    PREFIX,
    hydra_tensors,
    medusa_tensors,
    prefix_model,
    write_hydra,
    write_medusa,
)

WRITE = {"medusa": write_medusa, "hydra": write_hydra}
TENSORS = {"medusa": medusa_tensors, "hydra": hydra_tensors}
Change = Callable[[dict[str, Tensor]], Any]


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return make_model("llama")


def message(folder: Path, model: PreTrainedModel) -> str:
    """What the loader says; one line, whatever happened."""
    with pytest.raises(CheckpointError) as error:
        load_draft_head(folder, StockTarget(model), "tiny-llama")
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("kind", "layout"), [*product(["medusa"], LAYOUTS), *product(["hydra"], HYDRA_LAYOUTS)]
)
def test_every_layout(model: PreTrainedModel, tmp_path: Path, kind: str, layout: str) -> None:
    """Heads counted by a wrong config, shared weights copied, a draft vocabulary that trims nothing."""
    folder = WRITE[kind](tmp_path, layout, model)
    assert recognise_head(folder) == kind
    head = load_draft_head(folder, StockTarget(model), "tiny-llama")
    assert isinstance(head, MedusaHeads | HydraHeads)
    assert len(head.heads) == HEADS
    drafted = 40 if layout == "ours" else 97
    for one in head.heads:
        assert len(one.blocks) == (2 if layout in ("two-layers", "plus-plus") else 1)
        assert (one.to_lm_head is not None) == (layout == "ours")
        assert one.words.size == drafted
    lm_heads = {id(one.words.lm_head) for one in head.heads}
    assert len(lm_heads) == (1 if layout in ("shared", "ours") else HEADS)
    if layout == "shared":
        assert head.heads[0].words.lm_head is model.get_output_embeddings()


def test_own_lm_heads_are_trimmed_too(model: PreTrainedModel, tmp_path: Path) -> None:
    """Rows of the draft vocabulary numbered as the target's tokens."""
    tensors = hydra_tensors("published", 97) | {"draft_vocab": torch.tensor([3, 5, 96])}
    head = load_draft_head(write_head(tmp_path, {}, dict(tensors)), StockTarget(model), "tiny-llama")
    assert isinstance(head, HydraHeads)
    for number, one in enumerate(head.heads):
        assert isinstance(one.words.lm_head, Linear)
        assert torch.equal(one.words.lm_head.weight, tensors[f"hydra_lm_head.{number}.weight"][[3, 5, 96]])
        assert one.words.lm_head.bias is not None
        assert torch.equal(one.words.lm_head.bias, tensors[f"hydra_lm_head.{number}.bias"][[3, 5, 96]])


def drop(name: str) -> Change:
    return lambda tensors: tensors.pop(name)


def put(name: str, *shape: int) -> Change:
    return lambda tensors: tensors.update({name: torch.ones(shape)})


@pytest.mark.parametrize(
    ("kind", "layout", "change", "said"),
    [
        ("medusa", "published", drop("1.0.linear.bias"), "tensor 1.0.linear.bias is missing"),
        ("medusa", "published", drop("2.1.weight"), "tensor 2.1.weight is missing"),
        ("medusa", "two-layers", drop("3.1.linear.weight"), "tensor 3.1.linear.weight is missing"),
        ("medusa", "ours", drop("0.to_lm_head.bias"), "tensor 0.to_lm_head.bias is missing"),
        ("medusa", "shared", put("0.res_connection.weight", 2, 2), "does not belong to a Medusa head"),
        (
            "medusa",
            "published",
            put("0.to_lm_head.weight", HIDDEN, HIDDEN),
            "does not belong to a Medusa head",
        ),
        ("medusa", "shared", put("0.0.linear.weight"), "is a single number"),
        ("medusa", "shared", put("0.0.linear.weight", HIDDEN, 9), "[32, 9], expected [32, 32]"),
        ("medusa", "shared", put("0.0.linear.weight", 48, 48), "hidden size of 48, but tiny-llama has 32"),
        ("medusa", "published", put("1.1.weight", 98, HIDDEN), "1.1.weight is [98, 32], expected [97, 32]"),
        ("medusa", "ours", put("draft_vocab", 3), "draft_vocab must be sorted token ids below 97"),
        ("medusa", "shared", put("9999.0.linear.weight", 2, 2), "is missing"),
        ("hydra", "published", drop("hydra_lm_head.1.bias"), "hydra_lm_head.1.bias is missing"),
        ("hydra", "published", drop("hydra_mlp.2.0.res_connection.bias"), "res_connection.bias is missing"),
        ("hydra", "shared", put("hydra_mlp.1.0.linear.weight", 32, 64), "[32, 64], expected [32, 96]"),
        ("hydra", "published", put("input_embed_fn.weight", 9, 32), "an embedding of [9, 32]"),
        (
            "hydra",
            "shared",
            put("prefix_embeding_layer.norm.weight", 32),
            "hydra_mlp.0.1.linear.bias is missing",
        ),
    ],
)
def test_what_is_not_whole(
    model: PreTrainedModel, tmp_path: Path, kind: str, layout: str, change: Change, said: str
) -> None:
    """A damaged head, or one of another target, that loads and guesses badly, or fails far from its file."""
    tensors = TENSORS[kind](layout, 97)
    change(tensors)
    assert said in message(write_head(tmp_path, {}, tensors), model)


@pytest.mark.parametrize(
    ("kind", "config", "said"),
    [
        ("medusa", {"medusa_num_heads": 5}, "tensor 4.0.linear.bias is missing"),
        ("medusa", {"medusa_num_layers": 10**12}, "is missing"),
        ("medusa", {"medusa_num_heads": "five"}, "medusa_num_heads should be a whole number above 0"),
        ("medusa", {"vocab_size": 98}, "a vocabulary of 98, but tiny-llama has 97"),
        ("hydra", {"hydra_num_heads": 5}, "tensor hydra_mlp.4.0.linear.bias is missing"),
        ("hydra", {"hidden_state_offset": 1}, "hidden_state_offset is not supported"),
        ("hydra", {"hidden_state_offset": "x"}, "hidden_state_offset should be a whole number"),
    ],
)
def test_configs_that_do_not_fit(
    model: PreTrainedModel, tmp_path: Path, kind: str, config: dict[str, object], said: str
) -> None:
    """A field that is believed, or ignored where it changes what the head computes."""
    assert said in message(write_head(tmp_path, config, TENSORS[kind]("shared", 97)), model)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop(f"{PREFIX}.norm.weight"), "prefix_embeding_layer.norm.weight is missing"),
        (drop("hydra_mlp.1.3.linear.bias"), "hydra_mlp.1.3.linear.bias is missing"),
        (put(f"{PREFIX}.layers.1.norm.weight", 2), "does not belong to a Hydra++ head"),
        (put(f"{PREFIX}.layers.0.mlp.up_proj.weight", 9, 32), "up_proj.weight is [9, 32], expected [48, 32]"),
        (put(f"{PREFIX}.layers.0.self_attn.k_proj.weight", 9, 32), "q_proj and k_proj have 32 and 9 rows"),
        (put(f"{PREFIX}.layers.0.self_attn.rotary_emb.inv_freq", 4), None),
    ],
)
def test_the_layer_of_hydra_plus_plus(
    model: PreTrainedModel, tmp_path: Path, change: Change, said: str | None
) -> None:
    """A layer of another shape than the target's, and what older files hold beside it."""
    tensors = hydra_tensors("plus-plus", 97)
    tensors |= {f"{PREFIX}.{name}": tensor for name, tensor in prefix_model(model).state_dict().items()}
    change(tensors)
    folder = write_head(tmp_path, {}, tensors)
    if said:
        assert said in message(folder, model)
    else:
        load_draft_head(folder, StockTarget(model), "tiny-llama")


def test_a_hydra_head_that_reads_no_tokens(model: PreTrainedModel, tmp_path: Path) -> None:
    """The ungrounded kind, whose blocks are Medusa's: a puzzling name."""
    tensors = hydra_tensors("shared", 97)
    narrow = {
        name: tensor[:, :HIDDEN].clone() if name.endswith("weight") else tensor
        for name, tensor in tensors.items()
        if "res_connection" not in name
    }
    assert "grounded_heads" in message(write_head(tmp_path, {}, narrow), model)


@pytest.mark.parametrize("kind", WRITE)
def test_other_heads_are_no_eagle_heads(model: PreTrainedModel, tmp_path: Path, kind: str) -> None:
    """A head handed to a drafter that grows trees from it."""
    with pytest.raises(CheckpointError, match="not an EAGLE head"):
        load_eagle_head(WRITE[kind](tmp_path, "shared", model), StockTarget(model), "tiny-llama")
