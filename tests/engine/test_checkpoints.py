"""Heads that cannot be used: one sentence that names the file, the tensor or the target, and the sizes."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from engine import CheckpointError, StockTarget, load_eagle_head, recognise_head
from engine.drafters.eagle_head import EagleHead
from tests.engine.fused import tensors_of
from tests.engine.tiny import HEADS, head_config, head_tensors, make_model, write_head, write_layout

Q = "layers.0.self_attn.q_proj.weight"
K = "layers.0.self_attn.k_proj.weight"
UP = "layers.0.mlp.up_proj.weight"
NORM = "layers.0.post_attention_layernorm.weight"


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return make_model("llama")


def message(folder: Path, model: PreTrainedModel) -> str:
    """What the loader says; one line, whatever happened."""
    with pytest.raises(CheckpointError) as error:
        load_eagle_head(folder, StockTarget(model), "tiny-llama")
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("layout", HEADS)
@pytest.mark.parametrize("binary", [True, False])
def test_every_layout_in_both_file_formats(
    model: PreTrainedModel, tmp_path: Path, layout: str, binary: bool
) -> None:
    """A loader that takes only the layout it was written with."""
    tensors = head_tensors(layout, model)
    folder = write_head(tmp_path, head_config(layout, 97), tensors, binary)
    head = load_eagle_head(folder, StockTarget(model), "tiny-llama")
    assert isinstance(head, EagleHead)
    found = tensors_of(head)
    assert found.keys() == tensors.keys() - {"embed_tokens.weight", "draft_vocab"}
    for name in found:
        assert torch.equal(found[name], tensors[name].float())
    assert head.layer.slab.rows.shape == (1, 2, len(tensors[K]) // 8, 0, 8)


def without(name: str) -> Callable[[dict[str, Tensor]], None]:
    return lambda tensors: tensors.__delitem__(name)


def having(name: str, tensor: Tensor) -> Callable[[dict[str, Tensor]], None]:
    return lambda tensors: tensors.__setitem__(name, tensor)


BAD_TENSORS: dict[str, tuple[Callable[[dict[str, Tensor]], None], list[str]]] = {
    "no up_proj": (without(UP), [UP, "missing"]),
    "no norm": (without(NORM), [NORM, "missing"]),
    "no o_proj": (without("layers.0.self_attn.o_proj.weight"), ["o_proj.weight", "missing"]),
    "no gate_proj": (without("layers.0.mlp.gate_proj.weight"), ["gate_proj.weight", "missing"]),
    "no fc": (without("fc.weight"), ["fc.weight"]),
    "a second layer": (having("layers.1.mlp.up_proj.weight", torch.ones(2)), ["layers.1.mlp.up_proj.weight"]),
    "an input norm": (having("layers.0.input_layernorm.weight", torch.ones(32)), ["input_layernorm"]),
    "an LM head": (having("lm_head.weight", torch.ones(97, 32)), ["lm_head.weight"]),
    "a bias of o": (having("layers.0.self_attn.o_proj.bias", torch.ones(32)), ["o_proj.bias"]),
    "transposed up_proj": (having(UP, torch.ones(32, 48)), [UP, "[32, 48]", "[48, 32]"]),
    "short norm": (having(NORM, torch.ones(31)), [NORM, "[31]", "[32]"]),
    "wide fc": (having("fc.weight", torch.ones(32, 96)), ["fc.weight", "[32, 96]", "[32, 64]"]),
    "flat fc": (having("fc.weight", torch.ones(32)), ["fc.weight"]),
    "wrong q rows": (having(Q, torch.ones(24, 32)), ["q_proj", "24", "4 heads"]),
    "wrong k rows": (having(K, torch.ones(24, 32)), ["k_proj", "24", "kv heads"]),
    "bad bias": (having("fc.bias", torch.ones(7)), ["fc.bias", "[7]", "[32]"]),
    "EAGLE-3 by layer": (having("midlayer.hidden_norm.weight", torch.ones(32)), ["lm_head", "missing"]),
    "EAGLE-3 by vocabulary": (having("d2t", torch.zeros(40)), ["hidden_norm.weight", "missing"]),
    "embedding of another vocabulary": (
        having("embed_tokens.weight", torch.ones(98, 32)),
        ["tiny-llama", "[98, 32]", "[97, 32]"],
    ),
    "unsorted vocabulary": (having("draft_vocab", torch.tensor([3, 2, 5])), ["draft_vocab", "97"]),
    "double ids": (having("draft_vocab", torch.tensor([2, 2, 5])), ["draft_vocab"]),
    "ids too large": (having("draft_vocab", torch.tensor([2, 97])), ["draft_vocab", "97"]),
    "negative ids": (having("draft_vocab", torch.tensor([-1, 9])), ["draft_vocab"]),
    "no ids": (having("draft_vocab", torch.empty(0, dtype=torch.int32)), ["draft_vocab"]),
    "a table of ids": (having("draft_vocab", torch.ones(3, 1).int()), ["draft_vocab"]),
}


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_bad_tensors(model: PreTrainedModel, tmp_path: Path, case: str) -> None:
    """A head that is loaded anyway, with random weights or another meaning, or an error without names."""
    change, words = BAD_TENSORS[case]
    tensors = head_tensors("vicuna", model)
    change(tensors)
    said = message(write_head(tmp_path, head_config("vicuna", 97), tensors), model)
    assert all(word in said for word in [*words, str(tmp_path)]), said


@pytest.mark.parametrize("name", [Q, K])
def test_missing_projection_is_called_missing(model: PreTrainedModel, tmp_path: Path, name: str) -> None:
    """A missing tensor that is reported as one with 0 rows."""
    tensors = head_tensors("vicuna", model)
    del tensors[name]
    said = message(write_head(tmp_path, head_config("vicuna", 97), tensors), model)
    assert name in said
    assert "missing" in said


@pytest.mark.parametrize("name", ["fc.weight", Q, "layers.0.mlp.gate_proj.weight", "draft_vocab"])
def test_scalars_for_matrices(model: PreTrainedModel, tmp_path: Path, name: str) -> None:
    """A tensor without axes has no length: a TypeError from the middle of the loader."""
    tensors = head_tensors("vicuna", model) | {name: torch.tensor(1)}
    said = message(write_head(tmp_path, head_config("vicuna", 97), tensors), model)
    assert "fc.weight" in said or "proj" in said or "draft_vocab" in said


def test_wrong_target(tmp_path: Path) -> None:
    """A head of another model: both must be named, with both sizes."""
    other = make_model("llama")
    folder = write_layout(tmp_path / "head-of-llama", "llama3", other)
    wide = type(other)(type(other.config)(**{**other.config.to_dict(), "hidden_size": 64, "head_dim": 16}))
    said = message(folder, wide)
    assert all(word in said for word in ["head-of-llama", "tiny-llama", "32", "64"])


BAD_CONFIGS: dict[str, tuple[bytes | None, list[str]]] = {
    "missing": (None, ["config.json", "missing"]),
    "garbage": (b"\xff\xfe{]", ["config.json"]),
    "empty": (b"", ["config.json"]),
    "cut off": (b'{"hidden_size": 32, ', ["config.json"]),
    "a list": (b"[1, 2]", ["config.json", "object"]),
    "no heads": (b"{}", ["config.json", "num_attention_heads"]),
    "heads as text": (b'{"num_attention_heads": "4"}', ["config.json", "num_attention_heads"]),
    "no heads at all": (b'{"num_attention_heads": 0}', ["config.json", "num_attention_heads"]),
    "scaled rope": (
        b'{"num_attention_heads": 4, "rope_scaling": {"type": "dynamic", "factor": 2}}',
        ["config.json", "rope_scaling"],
    ),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_bad_configs(model: PreTrainedModel, tmp_path: Path, case: str) -> None:
    """A traceback about JSON, or a head that rotates otherwise than it was trained."""
    content, words = BAD_CONFIGS[case]
    folder = write_layout(tmp_path, "vicuna", model)
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_bytes(content)
    said = message(folder, model)
    assert all(word in said for word in [*words, str(folder)]), said


ODDITIES: dict[str, dict[str, object]] = {
    "kv heads as text": {"num_key_value_heads": "2"},
    "kv heads negative": {"num_key_value_heads": -4},
    "head_dim as text": {"head_dim": "8"},
    "more heads than hidden": {"num_attention_heads": 10**6},
    "rope_theta as text": {"rope_theta": "large"},
    "rope_theta as list": {"rope_theta": [1]},
    "rope_scaling as text": {"rope_scaling": "linear"},
    "rope_parameters as text": {"rope_parameters": "linear"},
    "rms_norm_eps as text": {"rms_norm_eps": "tiny"},
}


@pytest.mark.parametrize("case", ODDITIES)
def test_fields_of_the_wrong_type(model: PreTrainedModel, tmp_path: Path, case: str) -> None:
    """A TypeError or AttributeError from inside the loader, without the file's name."""
    config = head_config("vicuna", 97) | ODDITIES[case]
    said = message(write_head(tmp_path, config, head_tensors("vicuna", model)), model)
    assert str(tmp_path) in said


def test_kv_heads_that_do_not_divide_the_heads(model: PreTrainedModel, tmp_path: Path) -> None:
    """4 heads cannot share 3 kv heads: it would fail in the first forward, in the middle of a reply."""
    tensors = head_tensors("vicuna", model)
    for projection in "kv":
        tensors[f"layers.0.self_attn.{projection}_proj.weight"] = torch.ones(24, 32)
    config = head_config("vicuna", 97) | {"num_key_value_heads": 3}
    said = message(write_head(tmp_path, config, tensors), model)
    assert "kv heads" in said


def test_no_weights(model: PreTrainedModel, tmp_path: Path) -> None:
    """A folder with config.json alone, as an interrupted download leaves it."""
    folder = write_layout(tmp_path, "vicuna", model)
    (folder / "pytorch_model.bin").unlink()
    said = message(folder, model)
    assert all(word in said for word in [str(folder), "model.safetensors", "pytorch_model.bin"])


@pytest.mark.parametrize("layout", ["llama3", "vicuna"])
@pytest.mark.parametrize("size", [0, 1, 8, 100, 3000, -1])
def test_truncated_weights(model: PreTrainedModel, tmp_path: Path, layout: str, size: int) -> None:
    """An interrupted download, .safetensors and .bin, cut anywhere."""
    folder = write_layout(tmp_path, layout, model)
    (file,) = [file for file in folder.iterdir() if file.name != "config.json"]
    file.write_bytes(file.read_bytes()[:size])
    said = message(folder, model)
    assert str(file) in said
    assert "fetch the head again" in said


def test_garbage_in_a_bin(model: PreTrainedModel, tmp_path: Path) -> None:
    """Unpickling noise raises nearly any exception there is; the user gets one sentence for all of them."""
    folder = write_layout(tmp_path, "vicuna", model)
    rng = random.Random(0)
    for size in [3, 40, 400] * 60:
        (folder / "pytorch_model.bin").write_bytes(b"\x80\x02" + rng.randbytes(size))
        assert str(folder / "pytorch_model.bin") in message(folder, model)
    for _ in range(100):  # starts like the text protocol of old pickles
        content = bytes(rng.choices(b"(lp0aI1.N}]esbRt0q\x00\x01K", k=rng.randint(1, 30)))
        (folder / "pytorch_model.bin").write_bytes(content)
        assert str(folder / "pytorch_model.bin") in message(folder, model)


def write_shards(folder: Path, tensors: dict[str, Tensor], binary: bool) -> Path:
    """The weights of a head in two files with an index, which also names them. The index."""
    names = sorted(tensors)
    parts = {"1": {n: tensors[n] for n in names[::2]}, "2": {n: tensors[n] for n in names[1::2]}}
    stem, suffix = ("pytorch_model", "bin") if binary else ("model", "safetensors")
    places = {}
    for number, part in parts.items():
        file = f"{stem}-0000{number}-of-00002.{suffix}"
        places |= dict.fromkeys(part, file)
        if binary:
            torch.save(part, folder / file)
        else:
            save_file(part, folder / file)
    index = folder / f"{stem}.{suffix}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return index


@pytest.mark.parametrize("binary", [True, False])
def test_several_files(model: PreTrainedModel, tmp_path: Path, binary: bool) -> None:
    """A large head that was saved in parts: called no head, or half of it missing."""
    folder = write_layout(tmp_path, "vicuna", model)
    (folder / "pytorch_model.bin").unlink()
    tensors = head_tensors("vicuna", model)
    index = write_shards(folder, tensors, binary)
    assert recognise_head(folder) == "eagle2"
    head = load_eagle_head(folder, StockTarget(model), "tiny-llama")
    assert isinstance(head, EagleHead)
    assert torch.equal(tensors_of(head)[UP], tensors[UP])
    shard = next(folder.glob("*00002-of*"))
    shard.unlink()
    assert str(shard) in message(folder, model)
    for content in (
        "{",
        "[]",
        '{"weight_map": [1]}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": []}}',
    ):
        index.write_text(content)
        assert f"{index} is no index of weight files" in message(folder, model)


def test_a_whole_model(model: PreTrainedModel, tmp_path: Path) -> None:
    """Gigabytes read in order to say that they are no head, and which tensors one would have."""
    folder = write_layout(tmp_path, "vicuna", model)
    (folder / "pytorch_model.bin").unlink()
    places = dict.fromkeys(model.state_dict(), "model-00001-of-00004.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert f"{folder} is a whole language model: draft with it by --method draft-model" in message(
        folder, model
    )
    model.save_pretrained(tmp_path / "whole")
    assert f"{tmp_path / 'whole'} is a whole language model" in message(tmp_path / "whole", model)


class _Payload:
    """Leaves a trace if it is ever unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("by_torch", [True, False])
def test_code_in_a_pickle_is_not_run(model: PreTrainedModel, tmp_path: Path, by_torch: bool) -> None:
    """A head from a stranger that owns the machine."""
    folder, trace = write_layout(tmp_path / "head", "vicuna", model), tmp_path / "trace"
    file = folder / "pytorch_model.bin"
    if by_torch:
        torch.save({"fc.weight": torch.ones(2), "layers.0.x": _Payload(trace)}, file)
    else:
        file.write_bytes(pickle.dumps({"fc.weight": _Payload(trace)}))
    assert str(file) in message(folder, model)
    assert not trace.exists()


@pytest.mark.parametrize("content", [{"state_dict": {"fc.weight": torch.ones(2)}}, [torch.ones(2)], {"a": 3}])
def test_a_bin_of_something_else(model: PreTrainedModel, tmp_path: Path, content: object) -> None:
    """A training checkpoint instead of a table of tensors."""
    folder = write_layout(tmp_path, "vicuna", model)
    torch.save(content, folder / "pytorch_model.bin")
    assert "not a table of tensors" in message(folder, model)
