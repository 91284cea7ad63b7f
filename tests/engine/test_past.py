"""Models with windows, with states, with biases by row: trees where they are right, else plain decoding."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    FalconConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    MambaConfig,
    MistralConfig,
    MptConfig,
    PretrainedConfig,
    Qwen2Config,
    RecurrentGemmaConfig,
)

from engine import (
    DraftModel,
    Engine,
    GenerationSettings,
    PromptLookup,
    SettingsError,
    StockTarget,
    make_target,
)
from tests.engine.stubs import Oracle, plain_reply, reply
from tests.engine.test_target import SMALL, close, path_to, plain, random_tree, read
from tests.engine.tiny import fill, make_model

PROMPT = [(5 * i + i * i) % 90 for i in range(20)]
WINDOW = 8
SETTINGS = GenerationSettings(max_new_tokens=30)
WITH_TREES: dict[str, PretrainedConfig] = {
    "mistral": MistralConfig(sliding_window=WINDOW, **SMALL),
    "gemma3": Gemma3TextConfig(
        sliding_window=WINDOW, head_dim=8, layer_types=["sliding_attention", "full_attention"], **SMALL
    ),
    "gemma2-eager": Gemma2Config(sliding_window=WINDOW, head_dim=8, **SMALL),
    "qwen2": Qwen2Config(use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1, **SMALL),
    "gpt2": GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4),
}
_THIN = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2}
PLAINLY: dict[str, PretrainedConfig] = {
    "mamba": MambaConfig(state_size=8, **_THIN),
    "recurrent-gemma": RecurrentGemmaConfig(
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=1,
        lru_width=32,
        attention_window_size=WINDOW,
        **{**_THIN, "num_hidden_layers": 3},
    ),
    "falcon-alibi": FalconConfig(num_attention_heads=4, alibi=True, **_THIN),
    "mpt": MptConfig(vocab_size=97, d_model=32, n_layers=2, n_heads=4),
}


def make(config: PretrainedConfig) -> StockTarget:
    model = AutoModelForCausalLM.from_config(config).eval()
    fill(model, 1)
    target = make_target(model, "stock")
    assert isinstance(target, StockTarget)
    return target


def generated(target: StockTarget, prompt: list[int]) -> list[int]:
    """By transformers' own loop, cache and masks."""
    ids = torch.tensor([prompt])
    options = {"do_sample": False, "max_new_tokens": 30, "eos_token_id": None, "pad_token_id": 0}
    return target.model.generate(ids, attention_mask=torch.ones_like(ids), **options)[
        0, len(prompt) :
    ].tolist()


@pytest.mark.parametrize("name", WITH_TREES)
def test_a_node_sees_what_its_path_would(name: str) -> None:
    """A window of rows instead of positions, or none; layers under another kind's mask."""
    target = make(WITH_TREES[name])
    assert target.takes_trees
    with torch.inference_mode():
        read(target, PROMPT)
        tree = random_tree(4, 24)
        logits, _ = target.verify(tree)
        for node in range(len(tree)):
            text = PROMPT + [tree.host.tokens[i] for i in path_to(tree, node)]
            close(logits[node], plain(target.model, text)[0][-1])


@pytest.mark.parametrize("name", WITH_TREES)
def test_drafts_do_not_change_the_text(name: str) -> None:
    """Rows that slid out of the window and are missed after a rewind; prefill with no window at all."""
    target = make(WITH_TREES[name])
    expected = plain_reply(target, PROMPT, SETTINGS)
    assert expected == generated(target, PROMPT)
    oracle = Oracle(target.vocabulary)
    engine = Engine(target, {"oracle": oracle, "pld": PromptLookup(4)})
    oracle.future = PROMPT + expected
    for method in ("oracle", "pld", "oracle"):
        assert reply(engine, PROMPT, SETTINGS, method) == expected
    shorter = PROMPT[:9]
    assert reply(engine, shorter, SETTINGS, "oracle") == generated(target, shorter)


@pytest.mark.parametrize("name", PLAINLY)
def test_others_decode_plainly(name: str) -> None:
    """A refusal to load, drafts that change the text, a state that a rewound conversation leaves behind."""
    target = make(PLAINLY[name])
    assert not target.takes_trees
    engine = Engine(target)
    first = reply(engine, PROMPT, SETTINGS, "none")
    assert first == generated(target, PROMPT)
    longer = [*PROMPT, *first, 4, 5]
    assert reply(engine, longer, SETTINGS, "none") == generated(target, longer)
    assert reply(engine, PROMPT[:9], SETTINGS, "none") == generated(target, PROMPT[:9])
    for drafts in (lambda new: Engine(target, new), engine.add):
        with pytest.raises(SettingsError, match="decode plainly"):
            drafts({"pld": PromptLookup(4)})


def test_a_reply_that_broke_off_leaves_no_state() -> None:
    """A token that went into the state and not into the text."""
    target = make(PLAINLY["mamba"])
    engine = Engine(target)
    expected = reply(engine, PROMPT, SETTINGS, "none")
    engine.reset()
    with torch.inference_mode():
        list(target.extend(PROMPT))
        target.verify(random_tree(1, 1))
        target.rewind(len(PROMPT))
    assert target.length == 0
    assert reply(engine, PROMPT, SETTINGS, "none") == expected


def test_a_state_is_no_draft_model() -> None:
    """One that is asked to forget its refused drafts, and cannot."""
    with pytest.raises(SettingsError, match="cannot take back"):
        DraftModel(make(PLAINLY["mamba"]), 97, 4)


def test_our_own_models_pass_the_check() -> None:
    """A check so strict that every model would decode plainly."""
    for name in ("llama", "qwen3"):
        assert make_target(make_model(name), "stock").takes_trees
