"""Models and heads that are missing, damaged or do not fit: one sentence, the right exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from eagle_chat.errors import EXIT_FAILURE, EXIT_USAGE
from tests.eagle_chat.conftest import Ran
from tests.eagle_chat.test_bad_input import assert_refused
from tests.eagle_chat.tiny_model import write_chat_model

pytestmark = pytest.mark.usefixtures("one_thread")

Change = Callable[[Path], object]


@pytest.fixture
def run(command) -> Callable[..., Ran]:
    return lambda *args: command("run", "Hi", "--dtype", "fp32", "--max-new-tokens", "4", *args)


def copied(folder: Path, to: Path, change: Change) -> Path:
    """A copy of a folder with something wrong in it."""
    shutil.copytree(folder, to)
    change(to)
    return to


def config(**fields: Any) -> Change:
    """Fields of config.json changed; None takes one away."""

    def change(folder: Path) -> None:
        file = folder / "config.json"
        whole = json.loads(file.read_text()) | fields
        file.write_text(json.dumps({key: value for key, value in whole.items() if value is not None}))

    return change


def content(name: str, data: bytes) -> Change:
    """Another content for one file."""
    return lambda folder: (folder / name).write_bytes(data)


def cut(name: str) -> Change:
    """The first half of a file, as an interrupted copy leaves it."""

    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])

    return change


def without(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def tensors(**changed: torch.Tensor | None) -> Change:
    """Tensors of a head replaced, added or taken away; `__` stands for a dot."""

    def change(folder: Path) -> None:
        whole = load_file(folder / "model.safetensors")
        whole |= {name.replace("__", "."): tensor for name, tensor in changed.items()}  # type: ignore[misc]
        save_file(
            {name: tensor for name, tensor in whole.items() if tensor is not None},
            folder / "model.safetensors",
        )

    return change


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("smollm2-135", ("Unknown model 'smollm2-135'", "did you mean smollm2-135m?", "hub id", "folder")),
        ("qwerty", ("Unknown model 'qwerty'", "known names are", "llama3-8b")),
        ("./no-such-folder", ("There is no folder ./no-such-folder", "check the path")),
        ("", ("name of the model is empty",)),
    ],
)
def test_unknown_models_and_heads(run, name, said, chat_model):
    """Catches a name that is guessed at, or looked for on the network."""
    assert_refused(run("--model", name), *said)
    assert_refused(
        run("--model", chat_model, "--head", name), *(part.replace("the model", "the head") for part in said)
    )


BAD_CONFIG, BAD_WEIGHTS, BAD_TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
AGAIN = "copy or download"


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (without(BAD_CONFIG), EXIT_USAGE, ("holds no config.json",)),
        (without(BAD_WEIGHTS), EXIT_USAGE, ("has no weights",)),
        (without(BAD_TOKENIZER), EXIT_USAGE, ("has no tokenizer", "tokenizer.json")),
        (without("chat_template.jinja"), EXIT_USAGE, ("no chat template", "choose an instruct model")),
        (cut(BAD_CONFIG), EXIT_FAILURE, ("config.json is damaged", AGAIN)),
        (content(BAD_CONFIG, b""), EXIT_FAILURE, ("config.json is damaged", AGAIN)),
        (content(BAD_CONFIG, b"[]"), EXIT_FAILURE, ("config.json is damaged", AGAIN)),
        (content(BAD_CONFIG, b"\xff\xfe"), EXIT_FAILURE, ("config.json is damaged", AGAIN)),
        (content("generation_config.json", b"{"), EXIT_FAILURE, ("generation_config.json is damaged", AGAIN)),
        (content("tokenizer_config.json", b"["), EXIT_FAILURE, ("tokenizer_config.json is damaged", AGAIN)),
        (config(model_type=None), EXIT_FAILURE, ("config.json", "cannot be used", "model_type")),
        (config(model_type="abacus"), EXIT_FAILURE, ("cannot be used", "abacus", "or choose another")),
        (config(hidden_size="wide"), EXIT_FAILURE, ("config.json", "cannot be used", "hidden_size", "wide")),
        (config(num_attention_heads=5), EXIT_FAILURE, ("config.json", "cannot be used", "attention heads")),
        (config(hidden_size=64), EXIT_FAILURE, ("does not fit its config.json", "32]", "64]", AGAIN)),
        (config(num_hidden_layers=3), EXIT_FAILURE, ("incomplete", "no tensor model.layers.2.", AGAIN)),
        (
            config(model_type="abacus", auto_map={"AutoConfig": "code.Config"}),
            EXIT_FAILURE,
            ("cannot be used", "custom code", "choose another"),
        ),
        (cut(BAD_WEIGHTS), EXIT_FAILURE, ("cannot be loaded", AGAIN)),
        (content(BAD_WEIGHTS, b""), EXIT_FAILURE, ("cannot be loaded", AGAIN)),
        (cut(BAD_TOKENIZER), EXIT_FAILURE, ("the tokenizer in", "cannot be used", AGAIN)),
        (content(BAD_TOKENIZER, b"{}"), EXIT_FAILURE, ("the tokenizer in", "cannot be used", AGAIN)),
        (content("chat_template.jinja", b"{% for %}"), EXIT_USAGE, ("the chat template", "Expected an expr")),
        (content("chat_template.jinja", b"{{ messages[0].a.b }}"), EXIT_USAGE, ("the chat template", "'a'")),
    ],
)  # fmt: skip
def test_damaged_models(run, chat_model, tmp_path, change, code, said):
    """Catches a loader's traceback, and random weights where the checkpoint has none."""
    assert_refused(
        run("--model", copied(chat_model, tmp_path / "damaged", change)), *said, "damaged", code=code
    )


def test_damaged_bin_model(run, chat_model, tmp_path):
    """Catches PyTorch's advice to run what a damaged file says."""
    folder = copied(chat_model, tmp_path / "damaged", without(BAD_WEIGHTS))
    (folder / "pytorch_model.bin").write_bytes(b"garbage")
    ran = run("--model", folder)
    assert_refused(ran, "cannot be loaded", "no file of tensors", AGAIN, code=EXIT_FAILURE)
    assert "weights_only" not in ran.err


def test_context_too_short_for_any_prompt(run, tmp_path):
    """Catches a crash while warming up."""
    model = write_chat_model(tmp_path / "short", max_position_embeddings=8)
    assert_refused(run("--model", model), "the context holds 8")


def test_file_instead_of_a_folder(run, chat_model):
    """Catches a weights file given for the folder it is in."""
    assert_refused(run("--model", chat_model / BAD_WEIGHTS), "is a file", "give the folder")


@pytest.fixture
def run_with_head(run, chat_model, chat_head) -> Callable[[Path, Change], Ran]:
    """With a changed copy of the head."""
    return lambda to, change: run("--model", chat_model, "--head", copied(chat_head, to, change))


VECTOR = torch.zeros(32)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (without(BAD_CONFIG), EXIT_USAGE, ("holds no config.json",)),
        (without(BAD_WEIGHTS), EXIT_USAGE, ("has no weights",)),
        (cut(BAD_CONFIG), EXIT_FAILURE, ("config.json is damaged",)),
        (cut(BAD_WEIGHTS), EXIT_FAILURE, ("model.safetensors", "fetch the head again")),
        (content(BAD_CONFIG, b"{}"), EXIT_USAGE, ("num_attention_heads",)),
        (config(num_attention_heads=3), EXIT_USAGE, ("3 heads",)),
        (config(vocab_size=32000), EXIT_USAGE, ("vocabulary of 32000", "has 340", "choose the head")),
        (tensors(midlayer__x=VECTOR), EXIT_USAGE, ("tensor lm_head.weight is missing",)),
        (tensors(d2t=VECTOR), EXIT_USAGE, ("hidden_norm.weight is missing",)),
        (tensors(fc__weight=None), EXIT_USAGE, ("is not a draft head", "fc.weight")),
        (tensors(layers__0__mlp__up_proj__weight=None), EXIT_USAGE, ("mlp.up_proj.weight is missing",)),
        (tensors(surplus=VECTOR), EXIT_USAGE, ("tensor surplus does not belong",)),
        (tensors(layers__0__mlp__up_proj__weight=VECTOR), EXIT_USAGE, ("up_proj.weight is [32]", "expected")),
        (tensors(draft_vocab=torch.tensor([5, 3])), EXIT_USAGE, ("draft_vocab must be sorted",)),
        (tensors(draft_vocab=torch.tensor([5, 340])), EXIT_USAGE, ("token ids below 340",)),
    ],
)  # fmt: skip
def test_damaged_heads(run_with_head, tmp_path, change, code, said):
    """Catches a head that is loaded with random or wrong parts, and guesses badly without a word."""
    assert_refused(run_with_head(tmp_path / "damaged", change), *said, "damaged", code=code)


def test_head_of_another_model(run, chat_head, tmp_path):
    """Catches a shape error in the first forward: the sentence names both and their sizes."""
    other = write_chat_model(tmp_path / "other", hidden_size=16)
    ran = run("--model", other, "--head", chat_head)
    assert_refused(
        ran, str(chat_head), "hidden size of 32", str(other), "has 16", "choose the head of this model"
    )


def test_target_given_as_head(run, chat_model):
    """Catches a whole model taken for a head."""
    assert_refused(run("--model", chat_model, "--head", chat_model), "whole language model", "draft-model")


def test_draft_model_of_another_vocabulary(run, chat_model, tmp_path):
    """Catches ids of one vocabulary drafted for another, which would only ever be wrong."""
    other = write_chat_model(tmp_path / "other", vocab_size=400)
    ran = run("--model", chat_model, "--method", "draft-model", "--head", other)
    assert_refused(ran, "vocabulary of 400 tokens", "one of 340", "target's family")
