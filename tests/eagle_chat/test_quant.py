"""Quantized targets and targets that decode plainly, as the user meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM

from eagle_chat.loading import load_session
from eagle_chat.options import Method, Options, Quant
from engine import load_model
from engine.quantized import quantized_layers
from tests.eagle_chat.conftest import Ran, assert_refused
from tests.eagle_chat.tiny_model import byte_level, write_chat_model, write_model

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_weights_that_were_asked_for(chat_model: Path, chat_head: Path) -> None:
    """An option that reaches the header and not the weights, or the other way round."""
    for quant in (Quant.NONE, Quant.INT8):
        session = load_session(Options(str(chat_model), str(chat_head), quant=quant), lambda _: None)
        assert session.info.quant == quant.value
        assert bool(quantized_layers(session.engine.target.model)) == (quant is Quant.INT8)
        assert not session.info.notes


def test_weights_that_are_quantized_already(tmp_path: Path, chat_model: Path) -> None:
    """Nothing said where the option has no effect, and a header that names what was asked for."""
    load_model(chat_model, torch.bfloat16, torch.device("cpu"), "int8").save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / name).write_bytes((chat_model / name).read_bytes())
    for asked, told in ((Quant.NONE, ()), (Quant.INT8, ()), (Quant.NF4, ("are int8 already: --quant nf4",))):
        options = Options(str(tmp_path), quant=asked, method=Method.PLD)
        info = load_session(options, lambda _: None).info
        assert info.quant == "int8"
        assert len(info.notes) == len(told)
        assert all(part in note for part, note in zip(told, info.notes, strict=True))


def test_a_quantized_reply(command: Callable[..., Ran], chat_model: Path, chat_head: Path) -> None:
    """A traceback in the first round, warnings of a library, a summary that hides the format."""
    options = ("--model", chat_model, "--head", chat_head, "--quant", "int8", "--max-new-tokens", 20)
    ran = command("run", "Tell me more.", *options, "--json", "--compare")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert (found["quant"], found["new_tokens"], found["method"]) == ("int8", 20, "eagle2+pld")
    assert "cast" not in ran.err
    assert "kernels" not in ran.err


def test_what_nf4_cannot_do_here(command: Callable[..., Ran], tmp_path: Path) -> None:
    """The library's message about tensor shapes."""
    model = write_chat_model(tmp_path / "tiny")
    ran = command("run", "Hi.", "--model", model, "--method", "none", "--quant", "nf4")
    assert_refused(ran, "multiples of 64", "--quant int8")


@pytest.fixture
def mamba(tmp_path: Path) -> Path:
    tokenizer = byte_level()
    config = MambaConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, state_size=8)
    torch.manual_seed(1)
    return write_model(tmp_path / "tiny-mamba", tokenizer, MambaForCausalLM(config).eval())


@pytest.mark.parametrize("method", [None, Method.PLD])
def test_a_model_with_a_state_decodes_plainly(mamba: Path, method: Method | None) -> None:
    """A refusal to load, or drafts that change the text, or a silent change of method."""
    session = load_session(Options(str(mamba), method=method), lambda _: None)
    assert session.info.method == "none"
    (note,) = session.info.notes
    assert "cannot verify drafts" in note
    assert "decodes plainly" in note


def test_there_is_nothing_to_race(command: Callable[..., Ran], mamba: Path) -> None:
    """A traceback where a second method is missing."""
    ran = command("race", "Hi.", "--model", mamba, "--max-new-tokens", 4)
    assert ran.code == 2
    assert "nothing to measure plain decoding against" in ran.sentence
    assert "Traceback" not in ran.err
