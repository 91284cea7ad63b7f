"""`make gpu-check`: large models with random weights on a CUDA machine, no network needed, in five minutes.

For the shapes of Llama 3 8B, Llama 2 7B and Qwen3 8B, in bf16 and nf4: a tree's logits are those of single
rows but for rounding, EAGLE-2's text parts from plain decoding's at near ties only, and a round's
milliseconds. The weights are random, and so is the draft head: what is accepted says nothing, so an oracle
that knows the text drafts as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen3Config,
)
from transformers.utils import logging

from engine import DraftTree, Eagle2, Engine, GenerationSettings, Round, Target, make_target
from engine.drafters.eagle_head import EagleHead
from engine.drafters.head_layer import HeadShape
from engine.quantized import quantization_config
from tests.engine.stubs import Oracle

MINUTES = 5.0
TOKENS = 64
ROUNDING = 0.1  # of the logits' standard deviation: what kernels of other shapes may change
_BOTH = {"num_attention_heads": 32, "max_position_embeddings": 4096, "pad_token_id": None}
SHAPES: dict[str, PretrainedConfig] = {
    "llama3-8b": LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_key_value_heads=8,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        **_BOTH,
    ),
    "llama2-7b": LlamaConfig(
        vocab_size=32000,
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_key_value_heads=32,
        **_BOTH,
    ),
    "qwen3-8b": Qwen3Config(
        vocab_size=151936,
        hidden_size=4096,
        intermediate_size=12288,
        num_hidden_layers=36,
        num_key_value_heads=8,
        head_dim=128,
        **_BOTH,
    ),
}


def make_model(config: PretrainedConfig, quantized: bool, device: str = "cuda") -> PreTrainedModel:
    """Random weights, in bf16 or nf4: quantized as those of a file would be."""
    torch.manual_seed(0)
    form = {"dtype": torch.bfloat16, "attn_implementation": "sdpa"}
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, **form)
    if quantized:
        nf4 = quantization_config("nf4", torch.bfloat16, torch.device(device))
        model = type(model).from_pretrained(
            None,
            config=config,
            state_dict=model.state_dict(),
            quantization_config=nf4,
            device_map={"": device},
            **form,
        )
    return model.eval().requires_grad_(False)


def make_split() -> PreTrainedModel:
    """Llama 3 8B in bf16, the second half of its layers on the second GPU."""
    model = make_model(SHAPES["llama3-8b"], quantized=False)
    for layer in model.model.layers[16:]:
        layer.to("cuda:1")
    return model


def make_head(target: Target) -> EagleHead:
    """A random head in the layout of Llama 3's."""
    hidden = target.hidden_size
    inner, kv = 7 * hidden // 2, hidden // 4
    shapes = {
        "fc.weight": (hidden, 2 * hidden),
        "layers.0.self_attn.q_proj.weight": (hidden, hidden),
        "layers.0.self_attn.k_proj.weight": (kv, hidden),
        "layers.0.self_attn.v_proj.weight": (kv, hidden),
        "layers.0.self_attn.o_proj.weight": (hidden, hidden),
        "layers.0.mlp.gate_proj.weight": (inner, hidden),
        "layers.0.mlp.up_proj.weight": (inner, hidden),
        "layers.0.mlp.down_proj.weight": (hidden, inner),
    }
    placed = {"device": target.device, "dtype": torch.bfloat16}
    tensors: dict[str, Tensor] = {name: 0.02 * torch.randn(shape, **placed) for name, shape in shapes.items()}
    tensors["layers.0.post_attention_layernorm.weight"] = torch.ones(hidden, **placed)
    shape = HeadShape(heads=32, kv_heads=8, head_dim=hidden // 32, rms_norm_eps=1e-5, rope_theta=500000.0)
    return EagleHead(shape, tensors, target.embedding, target.lm_head)


@dataclass
class Run:
    """One method's reply."""

    tokens: list[int]
    gaps: list[float]  # between the two best logits before each token of plain decoding
    milliseconds: float  # of a round, the median
    per_round: float  # tokens


def run(engine: Engine, prompt: list[int], method: str) -> Run:
    """From an empty cache; twice, since the first time records graphs."""
    settings = GenerationSettings(max_new_tokens=TOKENS)
    for _ in range(2):
        engine.reset()
        rounds, best = [], []
        for event in engine.generate(prompt, settings, method):
            if isinstance(event, Round):
                rounds.append(event)
                best.append(event.logits[-1].float().topk(2).values)  # the next round overwrites logits
    tokens = [token for r in rounds for token in r.new]
    seconds = sorted(r.timing.draft + r.timing.verify + r.timing.other for r in rounds[1:])
    return Run(
        tokens,
        [(first - second).item() for first, second in best],
        1000 * seconds[len(seconds) // 2],
        (len(tokens) - 1) / len(seconds),
    )


def check(name: str, quantized: bool, split: bool = False) -> Iterator[str]:
    """Lines of the report. Raises AssertionError."""
    label = f"{name} {'nf4' if quantized else 'bf16'}{' on two GPUs' if split else ''}"
    return check_model(label, make_split() if split else make_model(SHAPES[name], quantized))


@torch.inference_mode()
def check_model(label: str, model: PreTrainedModel) -> Iterator[str]:
    """The same of any model."""
    target = make_target(model)
    oracle = Oracle(target.vocabulary)
    drafters = {"eagle2": Eagle2(make_head(target), nodes=60, depth=6, beam=10), "oracle": oracle}
    engine, prompt = Engine(target, drafters), [(7 * i + i * i) % (target.vocabulary - 1) for i in range(200)]
    plain = run(engine, prompt, "none")
    yield f"{label}: plain {plain.milliseconds:.2f} ms a token"

    engine.reset()
    for chunk in target.extend(prompt):
        single = chunk.logits
    chain = DraftTree.chain(plain.tokens[:32])
    together = target.verify(chain)[0].clone()  # the next verification overwrites it
    target.rewind(len(prompt))
    spread = single.float().std().item()
    for i, token in enumerate(plain.tokens[:32]):
        alone, _ = target.verify(DraftTree.chain([token]))
        off = (alone[0].float() - together[i].float()).square().mean().sqrt().item()  # the largest is luck
        assert off < ROUNDING * spread, f"{label}: row {i} of a tree is off by {off:.3f} of {spread:.3f}"
        target.keep([0])

    oracle.future = prompt + plain.tokens
    for method in ("eagle2", "oracle"):
        drafted = run(engine, prompt, method)
        pairs = enumerate(zip(plain.tokens, drafted.tokens, strict=True))
        first = next((i for i, (a, b) in pairs if a != b), None)
        if first is not None:
            gap = plain.gaps[first]
            assert gap < ROUNDING * spread, f"{label}: {method} parts at token {first}, gap {gap:.3f}"
        same = "same text" if first is None else f"parts at a near tie, token {first}"
        speed = f"{drafted.milliseconds:.2f} ms a round of {drafted.per_round:.2f} tokens"
        yield f"{label}: {method} {speed}, {same}"


def main() -> int:
    """Everything there is time for; the exit code."""
    if not torch.cuda.is_available():
        print("gpu-check: skipped, no CUDA device")
        return 0
    logging.disable_progress_bar()
    began, failed = time.monotonic(), False
    print(f"gpu-check: {torch.cuda.get_device_name()}, torch {torch.__version__}")
    checks = [(name, quantized, False) for quantized in (False, True) for name in SHAPES]
    if torch.cuda.device_count() > 1:
        checks.insert(1, ("llama3-8b", False, True))
    for name, quantized, split in checks:
        if time.monotonic() - began > 60 * MINUTES * 0.9:
            print(f"gpu-check: no time left for {name} {'nf4' if quantized else 'bf16'}")
            continue
        try:
            for line in check(name, quantized, split):
                print(line, flush=True)
        except AssertionError as error:
            print(f"gpu-check: FAILED, {error}")
            failed = True
        except torch.OutOfMemoryError:
            print(f"gpu-check: {name} does not fit on this GPU, skipped")
        torch.cuda.empty_cache()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
