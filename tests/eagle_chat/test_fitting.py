"""What a model needs, what is free, and what is said where the one is more than the other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from eagle_chat import hub, model_facts
from eagle_chat.catalogue import catalogue, entry
from eagle_chat.errors import UsageError
from eagle_chat.fitting import Place, check_fit
from eagle_chat.memory_need import Model, Placing, need, weight_bytes
from eagle_chat.model_facts import known_model
from eagle_chat.options import Dtype, Method, Options, Quant
from eagle_chat.pairing import check_pairing
from eagle_chat.shapes import Shape, shape_of
from eagle_chat.sizes import GB
from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.tiny_model import write_chat_model


def place(gigabytes: float, kind: str = "cpu", quant: str = "none") -> Place:
    return Place(Placing(kind, 2, quant), int(gigabytes * GB), "a place")


def refusal(options: Options, where: Place) -> list[str]:
    with pytest.raises(UsageError) as caught:
        check_fit(options, where)
    return str(caught.value).split("\n")


def test_what_fits_is_let_through():
    """Catches a refusal of what would have worked."""
    check_fit(Options(model="llama3-8b"), place(24))
    check_fit(Options(model="llama3-8b", quant=Quant.NF4), place(12, quant="nf4"))
    check_fit(Options(model="llama3-70b", force=True), place(24))
    check_fit(Options(model="llama3-70b"), None)


def test_refusal_is_a_table_that_adds_up_and_what_fits():
    """Catches a refusal that leaves the user without a way on, or whose parts are not its sum."""
    first, *rows, last = refusal(Options(model="llama3-8b"), place(12))
    units = {"GB": 1.0, "MB": 0.001}
    parts = [float(row.split()[-2]) * units[row.split()[-1]] for row in rows]
    total = float(first.partition("about ")[2].split()[0])
    assert total == pytest.approx(sum(parts), abs=0.1 * len(parts))
    assert "12.0 GB are free (a place)" in first
    assert rows[0].split()[:3] == ["weights,", "16", "bit"]
    assert "--quant int8 (" in last
    assert "--force" in last
    model = last.partition("--model ")[2].split(";")[0]
    check_fit(Options(model=model), place(12))
    check_fit(Options(model="llama3-8b", quant=Quant.INT8), place(12, quant="int8"))


def test_a_short_conversation_is_told():
    """Catches a chat that fits when it begins, and fails in the middle with nobody warned."""
    (note,) = check_fit(Options(model="llama3-8b"), place(18.5))
    tokens = int(note.partition("about ")[2].split()[0].replace(",", ""))
    assert 2048 <= tokens < 8192
    assert check_fit(Options(model="vicuna-7b"), place(17)) == []  # its context ends before its room


def test_nothing_is_suggested_that_does_not_fit():
    """Catches advice that only leads to the next refusal."""
    last = refusal(Options(model="llama3-8b", quant=Quant.NF4), place(0.1, quant="nf4"))[-1]
    assert "--quant" not in last
    assert "--model" not in last
    assert "--quant" not in refusal(Options(model="llama3-8b"), place(12, "mps"))[-1]


def test_medusa_heads_and_copies_count():
    """Catches LM heads of 2 GB each that are forgotten, and a benchmark whose second model does not fit."""
    medusa = Options(model="llama3-8b", method=Method.MEDUSA, head="a/b")
    check_fit(replace(medusa, method=Method.EAGLE2, head=None), place(19))
    assert any("draft head" in line and "4.3 GB" in line for line in refusal(medusa, place(19)))
    plain = Options(model="llama3-8b", method=Method.NONE)
    check_fit(plain, place(20), ("fp32",))  # too large for one
    with pytest.raises(UsageError, match=r"copies of them +16\.1 GB"):
        check_fit(plain, place(20), ("stock",))


def test_bench_and_train_look_before_they_load(command, chat_model: Path, monkeypatch, tmp_path: Path):
    """Catches a command that runs into a full memory where a chat would have refused."""
    monkeypatch.setattr("eagle_chat.fitting.free_memory", lambda: 10_000_000)
    for words in (
        ("bench", "--tasks", "qa", "--limit", "1", "--methods", "none,transformers"),
        ("train", "--out", tmp_path / "run", "--tokens", "1000"),
    ):
        ran = command(*words, "--model", chat_model)
        assert (ran.code, ran.out) == (2, "")
        assert "10 MB are free (main memory)" in ran.err


def test_a_draft_model_counts(monkeypatch):
    """Catches a second model that is forgotten."""
    options = Options(model="qwen3-8b", method=Method.DRAFT_MODEL, head="qwen3-4b")
    check_fit(replace(options, method=Method.NONE, head=None), place(20))
    assert any("draft model" in line for line in refusal(options, place(20)))


def test_refused_before_anything_is_fetched(command, monkeypatch):
    """Catches 16 GB downloaded for nothing, for aliases and for their hub ids."""
    monkeypatch.setattr("eagle_chat.fitting.free_memory", lambda: 4 * GB)
    monkeypatch.setattr(hub, "download", lambda *asked: pytest.fail(f"asked for {asked}"))
    for name in ("llama3-8b", "meta-llama/Meta-Llama-3-8B-Instruct"):
        ran = command("run", "Hi", "--model", name, "--dtype", "bf16")
        assert ran.code == 2
        assert ran.out == ""
        assert f"{name} needs about" in ran.err
        assert "4.0 GB are free" in ran.err


def test_facts_of_a_folder_are_its_own(chat_model: Path, tmp_path: Path):
    """Catches an estimate that is not of the files here: counted in their headers, a tied LM head once."""
    from transformers import AutoModelForCausalLM

    for folder in (chat_model, write_chat_model(tmp_path / "tied", tie_word_embeddings=True)):
        found = known_model(str(folder))
        assert found is not None
        model = AutoModelForCausalLM.from_pretrained(folder)
        assert found.parameters == model.num_parameters()
        assert found.shape.parameters == model.num_parameters()
        assert found.context == 2048


def test_facts_nobody_knows_stop_nothing(tmp_path: Path, monkeypatch):
    """Catches a guess: another architecture, quantized files and damaged ones are the loader's business."""
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    assert known_model(str(tmp_path)) is None
    shape = entry("llama3-8b").shape
    config = json.dumps({**CONFIG, "quantization_config": {"bits": 4}})
    (tmp_path / "config.json").write_text(config)
    assert known_model(str(tmp_path)) is None
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 20)
    found = known_model(str(tmp_path))
    assert found == Model(shape, shape.parameters, 8192)
    monkeypatch.setattr(model_facts, "cached", lambda repo: None)
    monkeypatch.setattr("eagle_chat.hub.answers", lambda repo: False)
    monkeypatch.setattr("eagle_chat.hub_plan.answers", lambda repo: False)
    assert known_model("owner/unknown") is None


CONFIG = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (
            CONFIG | {"head_dim": 64, "moe_intermediate_size": 768, "num_experts": 128},
            Shape(32, 4096, 768, 32, 8, 64, 128256, experts=128),
        ),
        (
            CONFIG | {"num_key_value_heads": None, "num_local_experts": 8},
            Shape(32, 4096, 14336, 32, 32, 128, 128256, experts=8),
        ),
        (
            {"text_config": CONFIG, "tie_word_embeddings": True},
            Shape(32, 4096, 14336, 32, 8, 128, 128256, tied=True),
        ),
        ({**CONFIG, "hidden_size": "wide"}, None),
    ],
)
def test_shapes_of_configs(config, shape):
    """Catches a field that is spelt otherwise in another family, or a default that is not its."""
    assert shape_of(config) == shape


def test_experts_stay_as_they_are():
    """Catches the promise that 4 bit make a routed model small: bitsandbytes does not touch experts."""
    mixtral, llama = (Model(entry(a).shape, entry(a).parameters) for a in ("mixtral-8x7b", "llama3-8b"))
    assert weight_bytes(mixtral, Placing("cuda", 2, "nf4")) > 0.9 * weight_bytes(mixtral, Placing("cuda", 2))
    assert weight_bytes(llama, Placing("cuda", 2, "nf4")) < 0.4 * weight_bytes(llama, Placing("cuda", 2))


def test_the_estimate_of_the_default_model_covers_it(chat_model: Path):
    """Catches a unit mixed up: the caches' share is what the engine says a token takes, while it grows."""
    from engine import load_model
    from engine.footprint import token_bytes

    loaded = load_model(chat_model, torch.float32, torch.device("cpu"))
    facts = known_model(str(chat_model))
    assert facts is not None
    assert need(facts, Placing("cpu", 4)).token == 1.5 * token_bytes(loaded)
    assert weight_bytes(facts, Placing("cpu", 4)) == sum(p.nbytes for p in loaded.parameters())


def test_wrong_pairings_each_have_their_sentence(command, monkeypatch):
    """Catches a mismatch that is only found after a download, or told without the head to take instead."""
    monkeypatch.setattr(hub, "download", lambda *asked: pytest.fail(f"asked for {asked}"))
    wide = ("run", "Hi", "--model", "vicuna-7b", "--head", "yuhuili/EAGLE-Vicuna-13B-v1.3", "--force")
    assert_refused(command(*wide), "head of vicuna-13b", "5120", "4096", "yuhuili/EAGLE-Vicuna-7B-v1.3")
    words = ("run", "Hi", "--model", "vicuna-7b", "--head", "llama3-8b", "--force")
    assert_refused(command(*words), "128,256", "32,000", "yuhuili/EAGLE-Vicuna-7B-v1.3")


def test_a_head_of_the_wrong_llama_is_told():
    """Catches EAGLE-3's 3.1 head drafting for Llama 3, which loads and only guesses badly."""
    wrong = Options(model="llama3-8b", head="yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")
    (note,) = check_pairing(wrong)
    assert "trained for llama3.1-8b" in note
    assert "yuhuili/EAGLE-LLaMA3-Instruct-8B" in note
    assert check_pairing(replace(wrong, model="some/model")) == []


def test_right_pairings_are_let_through():
    """Catches an entry's own head refused, and a small model that drafts taken for a head."""
    for one in catalogue().values():
        for head in (*one.heads.values(), one.alias):
            assert check_pairing(Options(model=one.alias, head=head)) == []
            assert check_pairing(Options(model=one.target, head=head)) == []
    assert check_pairing(Options(model="qwen3-8b", head="qwen3-1.7b", method=Method.DRAFT_MODEL)) == []


def test_published_trees_are_the_default_on_a_gpu():
    """Catches a tree of 60 nodes for a head that was published with 31, and one for a CPU that drowns it."""
    from eagle_chat.tree_sizes import TreeSize, tree_size

    options = Options(model="qwen3-8b", dtype=Dtype.BF16)
    assert tree_size(options, Method.EAGLE3, torch.device("cuda")) == TreeSize(31, 9, 4)
    assert tree_size(replace(options, nodes=9), Method.EAGLE3, torch.device("cuda")) == TreeSize(9, 9, 4)
    assert tree_size(options, Method.EAGLE3, torch.device("cpu")) == TreeSize(8, 3, 4)


def test_larger_trees_are_wider():
    """Catches 60 nodes asked for on a CPU that get the beam of 8, and a beam that was asked for overruled."""
    from eagle_chat.tree_sizes import TreeSize, tree_size

    def size(**given: int) -> TreeSize:
        return tree_size(Options(**given), Method.EAGLE2, torch.device("cpu"))

    assert size(nodes=60, depth=6) == TreeSize(60, 6, 10)
    assert size(nodes=60, depth=6, beam=5) == TreeSize(60, 6, 5)
    assert size(nodes=9) == TreeSize(9, 3, 4)


def test_trees_are_smaller_where_rows_are_not_free(tmp_path: Path):
    """Catches 60 nodes for 4-bit weights or experts, and a published tree or a size asked for overruled."""
    from eagle_chat.tree_sizes import TreeSize, tree_size

    def size(method: Method = Method.EAGLE2, device: str = "cuda", **options: object) -> TreeSize:
        return tree_size(Options(**options), method, torch.device(device))

    config = {**CONFIG, "num_local_experts": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    nf4 = {"model": "llama3-8b", "quant": Quant.NF4}
    assert size(model="llama3-8b") == size(model="llama3-8b", quant=Quant.INT8) == TreeSize(60, 6, 10)
    assert size(**nf4) == size(Method.EAGLE2_BARE, **nf4) == TreeSize(30, 6, 10)
    assert size(nodes=60, **nf4) == TreeSize(60, 6, 10)
    assert size(model="mixtral-8x7b") == TreeSize(60, 6, 10)  # published
    assert size(model=str(tmp_path)) == TreeSize(30, 6, 10)
    assert size(Method.LOOKAHEAD, model=str(tmp_path)) == TreeSize(55, 4, 7)
    for method in (Method.EAGLE, Method.DRAFT_MODEL, Method.NONE):
        assert size(method, **nf4) == size(method, model="llama3-8b")
    for method in Method:  # none is left without nodes, or deeper than it has nodes
        assert size(method, **nf4).nodes >= size(method, **nf4).depth
    assert size(device="cpu", **nf4) == TreeSize(8, 3, 4)
