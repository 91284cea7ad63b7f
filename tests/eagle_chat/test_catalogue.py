"""The catalogue: names resolve, and a wrong one is answered helpfully."""

from importlib.resources import files

import pytest

from eagle_chat.catalogue import catalogue, entry, entry_for
from eagle_chat.errors import EXIT_USAGE, UsageError


def test_every_entry_is_complete():
    """Catches a target that is no hub id, and a packaged head that was not shipped."""
    for one in catalogue().values():
        assert one.target.count("/") == 1
        for head in one.heads.values():
            assert "/" in head or files("eagle_chat").joinpath("heads", head, "model.safetensors").is_file()


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
