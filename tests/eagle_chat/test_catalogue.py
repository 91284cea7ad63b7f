"""The catalogue: names resolve, and a wrong one is answered helpfully."""

from importlib.resources import files

import pytest

from eagle_chat.catalogue import best_method, catalogue, entry, entry_for, instruct_of
from eagle_chat.errors import EXIT_USAGE, UsageError
from eagle_chat.methods import HEADS, Needs

PROMISED = {
    "vicuna-7b", "vicuna-13b", "vicuna-33b", "llama2-7b-chat", "llama2-13b-chat", "llama2-70b-chat",
    "llama3-8b", "llama3-70b", "llama3.1-8b", "llama3.3-70b", "deepseek-r1-distill-llama-8b", "mixtral-8x7b",
    "qwen2-7b", "qwen2-72b", "qwen2.5-14b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b", "qwen3-14b",
    "qwen3-30b-a3b", "qwen3-32b", "smollm2-135m",
}  # fmt: skip


def test_every_entry_is_complete():
    """Catches a target that is no hub id, a head of no method, and a packaged head that was not shipped."""
    assert set(catalogue()) >= PROMISED
    for one in catalogue().values():
        assert one.target.count("/") == 1
        assert one.family
        assert one.licence
        assert one.context >= 2048
        assert one.heads
        assert set(one.heads) <= {needs.value for needs in (*HEADS, Needs.DRAFT_MODEL)}
        for head in one.heads.values():
            assert "/" in head or files("eagle_chat").joinpath("heads", head, "model.safetensors").is_file()


def test_numbers_are_consistent():
    """Catches a mistyped size: what the shape adds up to is what was published, and heads divide evenly."""
    for one in catalogue().values():
        shape = one.shape
        assert shape.parameters == pytest.approx(one.parameters, rel=0.02), one.alias
        assert shape.heads % shape.kv_heads == 0
        assert shape.head_dim % 2 == 0


def test_every_head_and_target_is_named_once():
    """Catches an entry that was copied and not changed: hub ids lead back to their alias."""
    for names in (
        [one.target for one in catalogue().values()],
        [head for one in catalogue().values() for head in one.heads.values()],
    ):
        assert len(names) == len(set(names))


def test_published_trees_can_be_drawn():
    """Catches a tree for a method without a head, and sizes that no tree can have."""
    from engine import check_tree_size

    for one in catalogue().values():
        assert set(one.trees) == (set() if one.embedded else set(one.heads))
        for size in one.trees.values():
            check_tree_size(*size)


def test_the_newer_head_is_preferred():
    """Catches a target whose only published head is for EAGLE-3 being drafted by prompt lookup."""
    assert best_method(None, "qwen3-8b") == "eagle3"
    assert best_method(None, "llama3-8b") == "eagle2"
    assert best_method("llama3.1-8b", "somewhere/else") == "eagle3"
    assert best_method("some/head", "qwen3-8b") == "eagle2"


def test_base_models_lead_to_those_that_chat():
    """Catches advice that leaves the user searching for the instruct model's name."""
    assert instruct_of("meta-llama/Meta-Llama-3-8B") == "llama3-8b"
    assert instruct_of("meta-llama/Llama-2-13b-hf") == "llama2-13b-chat"
    assert instruct_of("/models/Qwen2.5-14B") == "qwen2.5-14b"
    assert instruct_of("somebody/else") is None
    assert instruct_of("lmsys/vicuna-7b-v1.3") is None


def test_default_model_is_embedded_and_has_a_head():
    """Catches a catalogue edit that makes the first start download from the hub or draft nothing."""
    assert [one.alias for one in catalogue().values() if one.embedded] == ["smollm2-135m"]
    assert entry("smollm2-135m").heads["eagle2"] == "smollm2-135m"


def test_unknown_alias_names_the_nearest():
    """Catches an error that leaves the user guessing: it names the mistake, the nearest alias, and all."""
    with pytest.raises(UsageError, match=r"'lama3-8b' \(did you mean llama3-8b\?\).*vicuna-7b") as caught:
        entry("lama3-8b")
    assert caught.value.exit_code == EXIT_USAGE


def test_unknown_alias_without_a_near_one_suggests_nothing():
    """Catches a suggestion that has nothing to do with what was typed."""
    with pytest.raises(UsageError, match=r"Unknown model 'zzz': known names are smollm2-135m, ") as caught:
        entry("zzz")
    assert "did you mean" not in str(caught.value)


def test_hub_id_of_a_known_target_finds_its_entry():
    """Catches `--model meta-llama/...` losing the head that the alias for the same model has."""
    found = entry_for("meta-llama/Meta-Llama-3-8B-Instruct")
    assert found is not None
    assert found.alias == "llama3-8b"
    assert entry_for("somebody/else") is None
