"""A GGUF file's metadata as transformers' config.json, for the architectures that are known here. No torch.

Not transformers' own reading: of Llama 3.1's rotary scaling, which GGUF has as a tensor, that says nothing.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from eagle_chat.errors import UsageError
from eagle_chat.gguf_file import GgufFile

CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
"""By architecture. `llama` is Mistral's too: in size and layout they are one."""

ROPE_FACTORS = "rope_freqs.weight"  # of Llama 3.1 and later: what each frequency is divided by
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""What every published one has beside its factor; GGUF says none of it."""


def config_of(gguf: GgufFile) -> dict[str, Any]:
    """Raises UsageError with one sentence for a model that cannot be converted."""
    check_known(gguf)
    architecture, metadata = gguf.architecture, gguf.metadata
    shapes = {tensor.name: tensor.shape for tensor in gguf.tensors}
    try:

        def value(key: str) -> Any:
            return metadata[f"{architecture}.{key}"]

        heads, hidden = value("attention.head_count"), value("embedding_length")
        head_dim = metadata.get(f"{architecture}.attention.key_length", hidden // heads)
        return {
            "architectures": [CLASSES[architecture]],
            "model_type": architecture,
            "hidden_size": hidden,
            "intermediate_size": value("feed_forward_length"),
            "num_hidden_layers": value("block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": metadata.get(f"{architecture}.attention.head_count_kv", heads),
            "head_dim": head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": value("context_length"),
            "rms_norm_eps": _decimal(value("attention.layer_norm_rms_epsilon")),
            "rope_parameters": _rope(gguf, head_dim),
            "vocab_size": shapes["token_embd.weight"][0],
            "tie_word_embeddings": "output.weight" not in shapes,
            "attention_bias": "blk.0.attn_q.bias" in shapes,
            "mlp_bias": "blk.0.ffn_up.bias" in shapes,
            "dtype": stored_dtype(gguf),
            **_special_tokens(gguf),
        }
    except (KeyError, IndexError, TypeError, ZeroDivisionError) as error:
        raise UsageError(
            f"{gguf.path} does not say all of its sizes ({error}): get another conversion of the model."
        ) from error


def stored_dtype(gguf: GgufFile) -> str:
    """What holds all its weights: its own format where they are not quantized, else bf16."""
    kinds = gguf.matrix_kinds
    return "float32" if "F32" in kinds else "float16" if "F16" in kinds else "bfloat16"


def check_known(gguf: GgufFile) -> None:
    """Raises UsageError for an architecture that is not converted, and for a part of a model."""
    path, metadata = gguf.path, gguf.metadata
    if (parts := metadata.get("split.count", 0)) > 1:
        raise UsageError(
            f"{path} is one of {parts} parts: join them with llama.cpp's `llama-gguf-split --merge` first."
        )
    if gguf.architecture not in CLASSES:
        raise UsageError(
            f"{path} holds a model of the architecture {gguf.architecture}, and from GGUF only "
            f"{', '.join(CLASSES)} are read: use the model's folder of safetensors files."
        )
    if metadata.get(f"{gguf.architecture}.expert_count", 0):
        raise UsageError(
            f"{path} holds a model of experts, which is not read from GGUF: use the model's folder of "
            "safetensors files."
        )


def _special_tokens(gguf: GgufFile) -> dict[str, Any]:
    """Those the file names. All that end a turn are ends: Llama 3 has two."""
    named = {key: gguf.metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("bos", "padding")}
    ends = [gguf.metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom")]
    eos = list(dict.fromkeys(end for end in ends if end is not None))
    found = {"bos_token_id": named["bos"], "pad_token_id": named["padding"]}
    found["eos_token_id"] = eos if len(eos) > 1 else eos[0] if eos else None
    return {key: token for key, token in found.items() if token is not None}


def _rope(gguf: GgufFile, head_dim: int) -> dict[str, Any]:
    """The base of the frequencies, and how they are stretched."""
    prefix = f"{gguf.architecture}.rope"
    turned = gguf.metadata.get(f"{prefix}.dimension_count", head_dim)
    kind = gguf.metadata.get(f"{prefix}.scaling.type", "none")
    base = _decimal(gguf.metadata.get(f"{prefix}.freq_base", 10_000.0))
    if turned != head_dim or kind not in ("none", "linear"):
        what = f"of the kind {kind}" if turned == head_dim else f"over {turned} of {head_dim} numbers"
        raise UsageError(
            f"{gguf.path} has rotary positions {what}, which is not read from GGUF: use the model's folder "
            "of safetensors files."
        )
    if any(tensor.name == ROPE_FACTORS for tensor in gguf.tensors):
        return {"rope_theta": base, "rope_type": "llama3", **_llama3(gguf, base, head_dim)}
    if kind == "linear":
        factor = _decimal(gguf.metadata[f"{prefix}.scaling.factor"])
        return {"rope_theta": base, "rope_type": "linear", "factor": factor}
    return {"rope_theta": base, "rope_type": "default"}


def _llama3(gguf: GgufFile, base: float, head_dim: int) -> dict[str, Any]:
    """The rule behind the factors in the file, which must be what it gives."""
    tensor = next(tensor for tensor in gguf.tensors if tensor.name == ROPE_FACTORS)
    with gguf.path.open("rb") as file:
        file.seek(tensor.start)
        stored = struct.unpack(f"<{tensor.size // 4}f", file.read(tensor.size))
    factor = max(stored)
    low, high, original = LLAMA3.values()
    for i, found in enumerate(stored):
        turns = original * base ** (-2 * i / head_dim) / (2 * math.pi)  # in the original context
        smooth = min(1.0, max(0.0, (turns - low) / (high - low)))
        if not math.isclose(found, 1 / ((1 - smooth) / factor + smooth), rel_tol=1e-3):
            raise UsageError(
                f"{gguf.path} has rotary factors by a rule that is not known here: use the model's folder "
                "of safetensors files."
            )
    return {"factor": factor, **LLAMA3}


def _decimal(value: float) -> float:
    """As it was written before it was stored in fp32: 1e-05, not 9.999999747378752e-06."""
    return float(f"{value:.7g}")
