"""Heads in the layout of vLLM's speculators from the command line, and the model that their config names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import LlamaForCausalLM

from eagle_chat.errors import UsageError
from eagle_chat.options import Options
from eagle_chat.pairing import check_base
from eagle_chat.weights import WeightsLocation
from tests.eagle_chat.tiny_eagle3 import LAYERS, eagle3_tensors
from tests.eagle_chat.tiny_model import head_config, head_tensors, write_chat_model, write_head
from tests.engine.tiny_speculators import renamed, speculators_config

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Deep enough for a head that reads three layers."""
    return write_chat_model(tmp_path_factory.mktemp("deep") / "model", num_hidden_layers=LAYERS)


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_a_reply(command, tmp_path, deep_model, kind):
    """Catches a head that is not recognised, guesses nothing, or changes what is said."""
    model = LlamaForCausalLM.from_pretrained(deep_model)
    if kind == "eagle":
        tensors = renamed(head_tensors(model), {"fc.": "fusion_fc.", "layers.0.": "transformer."})
        config = head_config(model)
    else:
        tensors = renamed(eagle3_tensors(model), {"midlayer.": "layers.0."})
        config = head_config(model, num_key_value_heads=4, draft_vocab_size=len(tensors["d2t"]))
    head = write_head(tmp_path / "head", speculators_config(kind, config), tensors)
    run = ("run", "Why is the sky blue?", "--model", deep_model, "--dtype", "fp32", "--json")
    size = ("--nodes", 8) if kind == "eagle3" else ()  # trees sized by their cost may stay empty
    found = json.loads(command(*run, "--max-new-tokens", 30, "--head", head, *size).out)
    assert found["method"] == {"eagle": "eagle2+pld", "eagle3": "eagle3"}[kind]
    assert found["tau"] > 1.1
    plain = json.loads(command(*run, "--max-new-tokens", 30, "--method", "none").out)
    assert found["text"] == plain["text"]


def made_for(folder: Path, base: object) -> WeightsLocation:
    """A head whose config names that model."""
    named = {"speculators_model_type": "eagle3", "speculators_config": {"verifier": {"name_or_path": base}}}
    (folder / "config.json").write_text(json.dumps(named))
    return WeightsLocation(folder, "owner/head", "")


@pytest.mark.parametrize(
    ("model", "base"),
    [
        ("llama3.1-8b", "meta-llama/Llama-3.1-8B-Instruct"),
        ("llama3.1-8b", "meta-llama/Meta-Llama-3.1-8B-Instruct"),  # as it was called once
        ("llama3.1-8b", "/somewhere/else/meta-llama/Llama-3.1-8B-Instruct"),
        ("llama3.1-8b", "/model/from_s3"),
        ("some/model", "some/Model"),
        ("some/model", "/a/folder"),
        ("llama3.1-8b", None),
        ("llama3.1-8b", 3),
    ],
)
def test_right_bases_and_unknown_ones_are_let_through(tmp_path, model, base):
    """Catches a head's own model taken for another one, by a path or an older name."""
    assert check_base(Options(model=model), made_for(tmp_path, base)) == []


def test_heads_without_a_base(tmp_path):
    """Catches a traceback for a published head's config, or one that is damaged."""
    head = WeightsLocation(tmp_path, "owner/head", "")
    for content in ("{}", "[]", "{", '{"speculators_config": 3}', '{"speculators_config": {"verifier": []}}'):
        (tmp_path / "config.json").write_text(content)
        assert check_base(Options(model="llama3.1-8b"), head) == []


def test_wrong_bases_have_their_sentence(tmp_path):
    """Catches a head of another model that drafts badly, or that is found not to fit after a download."""
    llama = made_for(tmp_path, "/cache/meta-llama/Llama-3.1-8B-Instruct")
    (note,) = check_base(Options(model="llama3-8b"), llama)
    assert "owner/head was trained for llama3.1-8b, not for llama3-8b" in note
    with pytest.raises(UsageError, match=r"head of llama3\.1-8b, which has 128,256 tokens where vicuna"):
        check_base(Options(model="vicuna-7b"), llama)
    (note,) = check_base(Options(model="some/model"), made_for(tmp_path, "some/other-model"))
    assert "owner/head was made for some/other-model, not for some/model" in note
