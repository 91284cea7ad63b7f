"""Targets with 8- and 4-bit weights on a CPU: really quantized, and the same text but at near ties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from engine import (
    Eagle2,
    Engine,
    GenerationSettings,
    LoadError,
    PromptLookup,
    SettingsError,
    StockTarget,
    UnsupportedModelError,
    fp32_gap,
    load_eagle_head,
    load_model,
    make_target,
    near_tie_limit,
    quantized_share,
)
from engine.near_tie import in_fp32
from engine.quantized import Quantization, quantization_config, quantization_of, quantized_layers
from tests.engine.stubs import Noise, reply
from tests.engine.test_real_model import ALIAS, HEADS, PROMPTS
from tests.engine.test_target import SMALL
from tests.engine.tiny import fill, make_model

CPU = torch.device("cpu")
KINDS: tuple[Quantization, ...] = ("int8", "nf4")
PROMPT = [(3 * i + i * i) % 90 for i in range(20)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    original().save_pretrained(path)
    return path


def original() -> PreTrainedModel:
    """Wider than other tiny models: nf4 scales 64 weights of a row together."""
    sizes = {**SMALL, "hidden_size": 64, "intermediate_size": 128}
    model = LlamaForCausalLM(LlamaConfig(**sizes)).eval()
    fill(model, 1, 0.15)
    return model


def load(folder: Path, kind: Quantization, dtype: torch.dtype = torch.bfloat16) -> PreTrainedModel:
    return load_model(folder, dtype, CPU, kind)


def first_difference(a: list[int], b: list[int]) -> int | None:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_layers_are_quantized(folder: Path, kind: Quantization) -> None:
    """An option that is read and changes nothing; a lean decoder that takes bits for numbers."""
    model = load(folder, kind)
    assert quantization_of(model) == kind
    assert len(quantized_layers(model)) == 14
    assert quantized_share(model) > 0.9
    assert model.lm_head.weight.dtype == torch.bfloat16
    target = make_target(model)
    assert isinstance(target, StockTarget)
    assert target.takes_trees
    with pytest.raises(UnsupportedModelError, match="not quantized"):
        make_target(model, "lean")
    assert quantization_of(make_model("llama")) == "none"


@pytest.mark.parametrize("kind", KINDS)
def test_layers_with_a_place_each(folder: Path, kind: Quantization) -> None:
    """Weights that a map of layers keeps from being quantized, or that it does not name.

    bitsandbytes' tensors cannot be on the stand-ins of elsewhere.py, so all places are one here.
    """
    split = load_model(folder, torch.bfloat16, CPU, kind, layers=(CPU, CPU))
    assert len(quantized_layers(split)) == 14
    ids = torch.tensor([PROMPT])
    with torch.inference_mode():
        found, expected = (model(input_ids=ids).logits for model in (split, load(folder, kind)))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_fp32_has_the_quantized_weights(folder: Path, kind: Quantization) -> None:
    """The original weights, or packed bits read as plain ones, would call other tokens nearly tied."""
    model = load(folder, kind, torch.float32)
    ids = torch.tensor([PROMPT])
    with torch.inference_mode():
        found = model(input_ids=ids).logits[0]  # and products have packed their weights by now
        exact = in_fp32(model)(input_ids=ids).logits[0]
        full = original()(input_ids=ids).logits[0]
    assert not quantized_layers(in_fp32(model))
    error, distance = ((x - exact).abs().mean() for x in (found, full))
    if kind == "nf4":  # int8 also rounds inputs, by about as much as weights
        assert error < distance / 4
    assert 0 < error < exact.std() / 4
    assert torch.corrcoef(torch.stack([exact.flatten(), full.flatten()]))[0, 1] < 0.99999


def test_experts_are_said_to_stay(tmp_path: Path) -> None:
    """Somebody who waits for a quarter of the memory, and gets all of it used."""
    make_model("mixtral").save_pretrained(tmp_path)
    assert quantized_share(load(tmp_path, "int8")) < 0.5


def test_narrow_layers_are_refused(tmp_path: Path) -> None:
    """A RuntimeError about shapes in the first reply."""
    make_model("llama").save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModelError, match="multiples of 64, and this model has one of 32"):
        load(tmp_path, "nf4")
    assert quantized_layers(load(tmp_path, "int8"))


def test_outliers_are_not_chosen_over_all_rows() -> None:
    """A node whose scores depend on its cousins: no draft could be verified."""
    config = quantization_config("int8", torch.bfloat16, CPU)
    assert config is not None
    assert config.llm_int8_threshold == 0


def test_nor_in_weights_that_were_published_so(folder: Path, tmp_path: Path) -> None:
    """As above, for a checkpoint in int8 whose config has the library's usual threshold."""
    ours = load(folder, "int8")
    ours.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"]["llm_int8_threshold"] = (
        0.5  # which hidden states here pass, as 6 is elsewhere
    )
    (tmp_path / "config.json").write_text(json.dumps(config))
    published = load(tmp_path, "none")
    assert quantization_of(published) == "int8"
    ids = torch.tensor([PROMPT])
    with torch.inference_mode():
        assert torch.equal(published(input_ids=ids).logits, ours(input_ids=ids).logits)


def test_where_it_cannot_be(folder: Path, tmp_path: Path) -> None:
    """A traceback of bitsandbytes on a device without its kernels, or for a damaged file."""
    with pytest.raises(SettingsError, match="leave --quant out"):
        load_model(folder, torch.float16, torch.device("mps"), "nf4")
    with pytest.raises(LoadError):
        load(tmp_path, "nf4")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_change_the_text_at_near_ties_only(
    folder: Path, kind: Quantization, temperature: float
) -> None:
    """A mask or position that goes wrong in quantized products alone."""
    target = make_target(load(folder, kind))
    engine = Engine(target, {"pld": PromptLookup(4), "noise": Noise(target.vocabulary)})
    settings = GenerationSettings(temperature=temperature, seed=3, max_new_tokens=30)
    check(engine, PROMPT, settings)


@pytest.mark.parametrize("kind", KINDS)
def test_the_real_model(kind: Quantization) -> None:
    """What a tiny one cannot show: thirty layers of rounding, and drafts that are accepted."""
    from transformers import AutoTokenizer

    from eagle_chat.fingerprint import cache_folder

    folder = cache_folder() / ALIAS
    if not (folder / "config.json").is_file():
        pytest.skip(f"{ALIAS} is not in {cache_folder()}: the slow tests, or eagle-chat itself, fetch it")
    target = make_target(load(folder, kind))
    head = load_eagle_head(HEADS / ALIAS, target, ALIAS)
    engine = Engine(target, {"eagle2": Eagle2(head, nodes=8, depth=3, beam=4)})
    messages = [{"role": "user", "content": PROMPTS[0]}]
    prompt = AutoTokenizer.from_pretrained(folder).apply_chat_template(messages, add_generation_prompt=True)
    check(engine, prompt["input_ids"], GenerationSettings(max_new_tokens=16))


def check(engine: Engine, prompt: list[int], settings: GenerationSettings) -> None:
    """Replies that part from plain decoding do so where the quantized model itself, in fp32, nearly ties."""
    expected = reply(engine, prompt, settings, "none")
    assert len(expected) > 10
    model = engine.target.model
    for method in engine.drafters:
        engine.reset()
        found = reply(engine, prompt, settings, method)
        index = first_difference(found, expected)
        if index is None:
            assert found == expected
            continue
        gap = fp32_gap(model, prompt + expected[:index], settings)
        assert gap is not None
        assert gap < near_tie_limit(model), (method, index, gap)
