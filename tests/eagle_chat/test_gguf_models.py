"""Models given as GGUF files: logits and text of the model they were made of, or one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType, quants
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.gguf_file import read_gguf
from eagle_chat.gguf_models import converted
from eagle_chat.memory_need import Placing, weight_bytes
from eagle_chat.model_facts import known_model
from eagle_chat.weights import find_target
from tests.eagle_chat.conftest import Ran, assert_refused
from tests.eagle_chat.tiny_gguf import write_model_gguf
from tests.eagle_chat.tiny_model import SENTENCES, byte_level, make_model, sentence_piece
from tests.eagle_chat.tiny_wheel import silent

pytestmark = pytest.mark.usefixtures("one_thread")

LLAMA_3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip
FAMILIES: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"tie_word_embeddings": True, "head_dim": 16}),
    ("llama", {"rope_parameters": LLAMA_3, "head_dim": 64}),
    ("qwen2", {"use_sliding_window": False}),
    ("qwen3", {"head_dim": 16}),
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("EAGLE_CHAT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return byte_level()


@pytest.fixture
def gguf(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    return write_model_gguf(tmp_path / "tiny.gguf", make_model(tokenizer), tokenizer)


@pytest.mark.parametrize(("family", "config"), FAMILIES)
def test_logits_are_those_of_the_model(family, config, tmp_path: Path, tokenizer) -> None:
    """Catches rows left in GGUF's order, a bias or a norm dropped, and Llama 3.1 read without its rope."""
    model = make_model(tokenizer, family, **config)
    path = write_model_gguf(tmp_path / "tiny.gguf", model, tokenizer)
    found = AutoModelForCausalLM.from_pretrained(converted(path, silent).folder, dtype=torch.float32)
    assert type(found) is type(model)
    ids = torch.arange(3, 40)[None]
    positions = torch.arange(37)[None] * 211  # far enough for a stretched rope to matter
    with torch.no_grad():
        wanted, logits = (one(ids, position_ids=positions).logits for one in (model, found))
    assert torch.allclose(logits, wanted, atol=1e-5)
    assert found.config.max_position_embeddings == 2048


def test_quantized_weights_are_dequantized_and_said_to_be(tmp_path: Path, tokenizer) -> None:
    """Catches blocks read as numbers, and 4 bits that turn into 16 with nobody told."""
    model = make_model(tokenizer)
    path = write_model_gguf(tmp_path / "q.gguf", model, tokenizer, GGMLQuantizationType.Q8_0)
    made = converted(path, silent)
    weight = AutoModelForCausalLM.from_pretrained(made.folder).model.layers[1].mlp.down_proj.weight
    original = model.model.layers[1].mlp.down_proj.weight.detach().numpy()
    blocks = quants.quantize(original, GGMLQuantizationType.Q8_0)
    wanted = torch.from_numpy(quants.dequantize(blocks, GGMLQuantizationType.Q8_0)).bfloat16()
    assert weight.dtype == torch.bfloat16
    assert torch.equal(weight, wanted)
    (note,) = made.notes
    assert "Q8_0 weights of q.gguf are dequantized (bf16" in note
    facts = known_model(str(path))
    assert facts is not None
    assert weight_bytes(facts, Placing("cpu", 2)) == 2 * model.num_parameters()
    assert facts.shape.parameters == facts.parameters


@pytest.mark.parametrize("kind", [GGMLQuantizationType.F16, GGMLQuantizationType.BF16])
def test_weights_that_are_not_quantized_stay_as_they_are(kind, tmp_path: Path, tokenizer) -> None:
    """Catches fp16 weights rounded to bf16."""
    path = write_model_gguf(tmp_path / "h.gguf", make_model(tokenizer).to(torch.float32), tokenizer, kind)
    made = converted(path, silent)
    assert made.notes == ()
    dtype = {GGMLQuantizationType.F16: torch.float16, GGMLQuantizationType.BF16: torch.bfloat16}[kind]
    assert AutoModelForCausalLM.from_pretrained(made.folder).dtype == dtype


@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_text_is_split_as_the_model_learned_it(make, tmp_path: Path) -> None:
    """Catches Llama 2's space before a text that begins with one, control tokens cut up, a lost template."""
    own = make()
    path = write_model_gguf(tmp_path / "tiny.gguf", make_model(own), own)
    found = AutoTokenizer.from_pretrained(converted(path, silent).folder)
    turns = [{"role": "user", "content": " Hi 12345  there"}, {"role": "assistant", "content": "So."}]
    texts = [*SENTENCES, "  two", " ", own.apply_chat_template(turns[:1], tokenize=False)]
    for text in texts:
        ids = own.encode(text, add_special_tokens=False)
        assert found.encode(text, add_special_tokens=False) == ids
        assert found.decode(ids) == own.decode(ids)
    assert (found.bos_token_id, found.eos_token_id) == (own.bos_token_id, own.eos_token_id)


def test_a_chat_with_a_file_is_that_with_the_folder(
    command: Callable[..., Ran], chat_model: Path, tokenizer, tmp_path: Path, cache: Path
) -> None:
    """Catches a file that converts and does not chat, and one converted again on every start."""
    model = AutoModelForCausalLM.from_pretrained(chat_model)
    (tmp_path / "models").mkdir()
    path = write_model_gguf(tmp_path / "models" / "tiny.gguf", model, tokenizer)
    asked = ("--dtype", "fp32", "--max-new-tokens", "12", "--method", "pld")
    wanted = command("run", "Why is the sky blue?", "--model", chat_model, *asked)
    for name in (path, path.parent):
        ran = command("run", "Why is the sky blue?", "--model", name, *asked)
        assert (ran.code, ran.out) == (0, wanted.out), ran.err
    (folder,) = (one for one in (cache / "gguf").iterdir() if one.is_dir())
    listed = json.loads(command("cache", "--json").out)["models"]
    (item,) = (one for one in listed if one["name"] == "tiny.gguf")
    assert item["what"] == "converted from GGUF"
    assert command("cache", "delete", "tiny.gguf", "--yes").code == 0
    assert not folder.exists()


def test_a_file_drafts(command: Callable[..., Ran], chat_model: Path, tokenizer, tmp_path: Path) -> None:
    """Catches a file that is good as a target and refused as a draft model."""
    small = write_model_gguf(tmp_path / "s.gguf", AutoModelForCausalLM.from_pretrained(chat_model), tokenizer)
    options = ("--model", chat_model, "--dtype", "fp32", "--max-new-tokens", 12, "--head", small, "--json")
    ran = command("run", "Why?", *options, "--method", "draft-model")
    assert json.loads(ran.out)["tau"] > 2, ran.err


def test_what_cannot_be_read_is_one_sentence(
    command: Callable[..., Ran], gguf: Path, tokenizer, tmp_path: Path, cache: Path
) -> None:
    """Catches a traceback, an endless read, and a guess for a file that is not what we know."""
    whole = gguf.read_bytes()

    def refused(name: str, content: bytes, *parts: str, code: int = 2) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        ran = command("run", "Hi", "--model", path)
        assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1), ran.err
        for part in parts:
            assert part in ran.err

    for length in (0, 4, 12, 200, 3000, len(whole) - 1):
        refused("cut.gguf", whole[:length], "cut.gguf is damaged or not a whole GGUF file", code=1)
    huge = whole[:16] + (1 << 62).to_bytes(8, "little") + whole[24:]
    refused("keys.gguf", huge, "is damaged", code=1)
    refused("zip.gguf", b"PK\3\4" + whole[4:], "is no GGUF file")
    refused("old.gguf", whole[:4] + b"\1\0\0\0" + whole[8:], "GGUF version 1")
    refused("mamba.gguf", whole.replace(b"llama", b"mamba"), "architecture mamba", "llama, qwen2, qwen3")
    refused("pre.gguf", whole.replace(b"gpt-2", b"bloom"), "tokenizer.ggml.pre is bloom")
    assert not (cache / "gguf").exists()
    assert_refused(command("run", "Hi", "--model", "no/such.gguf"), "There is no file no/such.gguf")
    assert_refused(command("run", "Hi", "--model", tmp_path), "several GGUF files (cut.gguf, keys.gguf, …)")


def test_types_and_models_that_are_not_read(tmp_path: Path, tokenizer) -> None:
    """Catches minutes of conversion before the one tensor that cannot be, and experts taken for one MLP."""
    model = make_model(tokenizer)
    with pytest.raises(UsageError, match="model of experts"):
        converted(write_model_gguf(tmp_path / "e", model, tokenizer, llama__expert_count=8), silent)
    with pytest.raises(UsageError, match="one of 3 parts"):
        converted(write_model_gguf(tmp_path / "s", model, tokenizer, split__count=3), silent)
    path = write_model_gguf(tmp_path / "t.gguf", model, tokenizer)
    entry = b"token_embd.weight" + (2).to_bytes(4, "little")
    place = path.read_bytes().index(entry) + len(entry) + 16
    for number, sentence in ((27, "weights in I64, which cannot be dequantized"), (250, "number 250")):
        changed = bytearray(path.read_bytes())
        changed[place] = number
        changed += bytes(8 * len(changed))  # room for a wider type
        other = tmp_path / f"{number}.gguf"
        other.write_bytes(changed)
        with pytest.raises(UsageError, match=sentence):
            converted(other, silent)


def test_a_full_disk_is_told_before_the_conversion(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches minutes of work that end with a full disk."""
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr("eagle_chat.gguf_models.shutil.disk_usage", lambda path: usage)
    with pytest.raises(EagleChatError, match="has room for 0 MB"):
        find_target(str(gguf), silent)


def test_a_damaged_conversion_is_made_again(gguf: Path, cache: Path) -> None:
    """Catches a folder trusted because it exists."""
    first = find_target(str(gguf), silent)
    (first.folder / "tokenizer.json").write_text("{}")
    again = find_target(str(gguf), silent)
    assert again == first
    assert json.loads((again.folder / "tokenizer.json").read_text())["model"]
    assert first.sha256.startswith(first.folder.name)


def test_the_header_says_what_the_package_says(gguf: Path) -> None:
    """Catches our own reader drifting from the format: every value and every tensor's place."""
    from gguf import GGUFReader

    ours, theirs = read_gguf(gguf), GGUFReader(gguf)
    values = {k: field.contents() for k, field in theirs.fields.items() if not k.startswith("GGUF.")}
    assert dict(ours.metadata) == values
    places = [(t.name, t.tensor_type.name, int(t.data_offset), int(t.n_bytes)) for t in theirs.tensors]
    assert [(t.name, t.kind, t.start, t.size) for t in ours.tensors] == places
