"""`make gpu-check` without a GPU: its models are made as it says, and its checks pass on the CPU."""

from __future__ import annotations

import pytest
from transformers import LlamaConfig

from engine.quantized import quantization_of, quantized_layers
from tests.gpu_check import check_model, make_model

TINY = LlamaConfig(
    vocab_size=1000,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    initializer_range=0.2,
    pad_token_id=None,
)


@pytest.mark.parametrize("quantized", [False, True])
def test_it_runs(quantized: bool) -> None:
    """A script that nobody runs before its day, and that fails on it: weights without numbers, and so on."""
    model = make_model(TINY, quantized, "cpu")
    assert quantization_of(model) == ("nf4" if quantized else "none")
    assert len(quantized_layers(model)) == (14 if quantized else 0)
    plain, eagle, oracle = check_model("tiny", model)
    assert plain.startswith("tiny: plain ")
    assert "ms a round of 1." in eagle
    assert " tokens, " in oracle
