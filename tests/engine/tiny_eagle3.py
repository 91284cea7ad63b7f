"""Tiny random EAGLE-3 heads in the published layout, and one engine with such a head per tiny model."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine import Calibration, Eagle2, Engine, StockTarget, load_eagle_head
from engine.drafters.eagle3_head import Eagle3Head
from tests.engine.conftest import Bench
from tests.engine.stubs import Moody, Oracle
from tests.engine.tiny import FAMILIES, HIDDEN, make_model, write_head

LAYERS = 7  # of the target: taps 2, 3 and 4
TAPS_FIELD = "eagle_aux_hidden_state_layer_ids"
EAGLE3_HEADS = ("llama3", "vicuna", "narrow", "wide-heads", "later", "qwen3")
"""Published layouts.

llama3: a draft vocabulary with d2t and t2d, no rope_theta; vicuna: the whole vocabulary without d2t, a copy
of the embedding, a wrong number of layers in its config; narrow: narrower than its target, so with an
embedding of its own; wide-heads: an explicit head_dim that is not hidden size / heads, and a rope base;
later: the layer has the name that later trainers write, with biases of its attention; qwen3: that name, norms
of q and k, and the whole vocabulary.
"""
_HEAD_WIDTH = {"narrow": 24}
_HEAD_DIM = {"narrow": 6, "wide-heads": 12}
_WHOLE_VOCABULARY = ("vicuna", "qwen3")


def eagle3_config(layout: str, vocabulary: int) -> dict[str, object]:
    """config.json as the layout's checkpoints carry it."""
    config: dict[str, object] = {
        "architectures": ["LlamaForCausalLM"],
        "draft_vocab_size": vocabulary if layout in _WHOLE_VOCABULARY else 40,
        "hidden_act": "silu",
        "hidden_size": _HEAD_WIDTH.get(layout, HIDDEN),
        "intermediate_size": 48,
        "max_position_embeddings": 2048,
        "num_attention_heads": 4,
        "num_hidden_layers": 1,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": vocabulary,
    }
    extra: dict[str, dict[str, object]] = {
        "llama3": {},
        "vicuna": {"num_hidden_layers": 40},
        "narrow": {"target_hidden_size": HIDDEN},
        "wide-heads": {"head_dim": 12, "rope_theta": 1000000.0},
        "later": {"attention_bias": True},
        "qwen3": {"model_type": "qwen3", "head_dim": 8},
    }
    return config | extra[layout]


def eagle3_tensors(layout: str, target: PreTrainedModel, seed: int = 5) -> dict[str, Tensor]:
    """Random weights under the published names."""
    embedding = target.get_input_embeddings().weight.detach()
    hidden, head_dim = _HEAD_WIDTH.get(layout, HIDDEN), _HEAD_DIM.get(layout, 8)
    drafted = len(embedding) if layout in _WHOLE_VOCABULARY else 40
    layer = "layers.0" if layout in ("later", "qwen3") else "midlayer"
    norms = (
        "norm",
        *(f"{layer}.{n}" for n in ("hidden_norm", "input_layernorm", "post_attention_layernorm")),
    )
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (hidden, 3 * HIDDEN),
        "lm_head.weight": (drafted, hidden),
        f"{layer}.self_attn.q_proj.weight": (4 * head_dim, 2 * hidden),
        f"{layer}.self_attn.k_proj.weight": (2 * head_dim, 2 * hidden),
        f"{layer}.self_attn.v_proj.weight": (2 * head_dim, 2 * hidden),
        f"{layer}.self_attn.o_proj.weight": (hidden, 4 * head_dim),
        f"{layer}.mlp.gate_proj.weight": (48, hidden),
        f"{layer}.mlp.up_proj.weight": (48, hidden),
        f"{layer}.mlp.down_proj.weight": (hidden, 48),
        **{f"{name}.weight": (hidden,) for name in norms},
    }
    if layout == "later":
        rows = {"q": 32, "k": 16, "v": 16, "o": 32}
        shapes |= {f"{layer}.self_attn.{p}_proj.bias": (rows[p],) for p in rows}
    random = torch.Generator().manual_seed(seed)
    tensors = {name: 0.2 * torch.randn(shape, generator=random) for name, shape in shapes.items()}
    for name in norms:
        tensors[f"{name}.weight"] += 1
    if layout == "qwen3":
        return tensors | {f"{layer}.self_attn.{p}_norm.weight": torch.rand(8, generator=random) for p in "qk"}
    if layout == "vicuna":
        return tensors | {"embed_tokens.weight": embedding.clone()}
    ids = torch.randperm(len(embedding), generator=random)[:drafted].sort().values
    tensors["d2t"] = ids - torch.arange(drafted)
    tensors["t2d"] = torch.zeros(len(embedding), dtype=torch.bool).index_fill(0, ids, True)
    if layout == "narrow":
        tensors["embed_tokens.weight"] = torch.randn(len(embedding), hidden, generator=random)
    return tensors


def write_eagle3(folder: Path, layout: str, target: PreTrainedModel, seed: int = 5) -> Path:
    """A tiny checkpoint of a published layout, made for `target`."""
    config = eagle3_config(layout, target.config.vocab_size)
    return write_head(folder, config, eagle3_tensors(layout, target, seed), binary=layout != "narrow")


def load_eagle3(folder: Path, model: PreTrainedModel) -> Eagle3Head:
    """Through the public loader."""
    head = load_eagle_head(folder, StockTarget(model), "tiny-llama")
    assert isinstance(head, Eagle3Head)
    return head


def make_benches(folder: Path) -> dict[str, Bench]:
    """By model name; each model gets a head of another layout."""
    made = {}
    for name, layout in zip(FAMILIES, EAGLE3_HEADS, strict=True):
        model = make_model(name, layers=LAYERS)
        target = StockTarget(model)
        written = write_eagle3(folder / name, layout, model)
        heads = [load_eagle_head(written, target, name) for _ in range(2)]  # each has a cache
        oracle = Oracle(target.vocabulary)
        drafters = {
            "eagle3": Eagle2(heads[0], nodes=20, depth=4, beam=6),
            "eagle3-sized": Eagle2(heads[1], 20, 4, 6, Calibration(4), Moody(20)),
            "oracle": oracle,
        }
        made[name] = Bench(target, Engine(target, drafters), oracle)
    return made
