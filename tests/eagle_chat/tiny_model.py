"""Tiny random fp32 chat models with a tokenizer each, and EAGLE heads that guess well, written as folders.

The layers of a model only nudge its embeddings, so that a head which passes the embedding on is right about
half of the time: trees are accepted at every depth, and the context still decides what is said.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils import logging

logging.disable_progress_bar()

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA_3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
LLAMA_2 = (
    "{% if messages[0].role == 'system' %}{% set turns = messages[1:] %}"
    "{% set system = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' %}"
    "{% else %}{% set turns = messages %}{% set system = '' %}{% endif %}{% for m in turns %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns must alternate') }}"
    "{% endif %}{% if m.role == 'user' %}"
    "{{ bos_token + '[INST] ' + (system if loop.first else '') + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}"
)
SENTENCES = [
    "Why is the sky blue? Because the air scatters short waves more than long ones.",
    "Write a poem about the sea, the wind and the long way home.",
    "The answer is that there is no answer, and that is the answer.",
    "天空是蓝色的，因为空气散射短波。 Ça va très bien, merci! 😀 👍🏽 שלום",
]
PADDING = 6  # rows of the LM head beyond the vocabulary, as published models have them


def byte_level(template: str | None = CHATML, specials: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """GPT-2's kind, as of Llama 3, Qwen and SmolLM: every byte has a token, some pairs are merged."""
    specials = specials or ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.add_special_tokens(list(specials))
    tokenizer.add_tokens([AddedToken("<think>", special=False)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=specials[0], eos_token=specials[-1], chat_template=template
    )


def sentence_piece(template: str | None = LLAMA_2) -> PreTrainedTokenizerFast:
    """Llama 2's kind: spaces are ▁, one is put before the text, what is unknown falls back to bytes."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁▁"]
    characters = sorted(set("".join(SENTENCES[:3]).replace(" ", "▁")) | set("abcdefghijklmnopqrstuvwxyz天"))
    words = ["▁t", "▁th", "▁the", "is", "▁is", "an", "▁an", "er"]
    vocabulary = {piece: i for i, piece in enumerate([*pieces, *characters, *words])}
    merges = [
        ("▁", "t"),
        ("▁t", "h"),
        ("▁th", "e"),
        ("i", "s"),
        ("▁", "is"),
        ("a", "n"),
        ("▁", "an"),
        ("e", "r"),
    ]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, [("▁", "▁"), *merges], unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        chat_template=template,
    )


def make_model(
    tokenizer: PreTrainedTokenizerFast, family: str = "llama", seed: int = 1, **config: Any
) -> PreTrainedModel:
    """A random model for the ids of `tokenizer`. Special tokens are never its first choice."""
    fields: dict[str, Any] = {
        "vocab_size": len(tokenizer) + PADDING,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    } | config
    kinds: dict[str, Any] = {
        "llama": (LlamaForCausalLM, LlamaConfig),
        "qwen2": (Qwen2ForCausalLM, Qwen2Config),
        "qwen3": (Qwen3ForCausalLM, Qwen3Config),
    }
    model_class, config_class = kinds[family]
    model: PreTrainedModel = model_class(config_class(**fields))
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            spread = 0.03 if name.endswith(("o_proj.weight", "down_proj.weight")) else 0.3
            noise = torch.randn(weight.shape, generator=random)
            weight.copy_(torch.ones_like(weight) if "norm" in name else spread * noise)
        embedding = model.get_input_embeddings().weight
        embedding.div_(embedding.square().mean(-1, keepdim=True).sqrt())
        model.get_output_embeddings().weight[tokenizer.all_special_ids] = 0
    return model.eval()


def write_model(folder: Path, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel, **how: Any) -> Path:
    """The folder of a published chat model; `how` goes to save_pretrained."""
    model.save_pretrained(folder, **how)
    tokenizer.save_pretrained(folder)
    return folder


def write_chat_model(folder: Path, family: str = "llama", seed: int = 1, **config: Any) -> Path:
    """A model with the byte-level tokenizer and a ChatML template."""
    tokenizer = byte_level()
    return write_model(folder, tokenizer, make_model(tokenizer, family, seed, **config))


def head_tensors(model: PreTrainedModel, kv_rows: int = 16) -> dict[str, Tensor]:
    """Tensors under their published names that pass the embedding on, nudged a little."""
    hidden, inner = model.config.hidden_size, 48
    random = torch.Generator().manual_seed(5)
    shapes = {
        "fc.weight": (hidden, 2 * hidden),
        "layers.0.self_attn.q_proj.weight": (hidden, hidden),
        "layers.0.self_attn.k_proj.weight": (kv_rows, hidden),
        "layers.0.self_attn.v_proj.weight": (kv_rows, hidden),
        "layers.0.self_attn.o_proj.weight": (hidden, hidden),
        "layers.0.mlp.gate_proj.weight": (inner, hidden),
        "layers.0.mlp.up_proj.weight": (inner, hidden),
        "layers.0.mlp.down_proj.weight": (hidden, inner),
        "layers.0.post_attention_layernorm.weight": (hidden,),
    }
    tensors = {name: 0.02 * torch.randn(shape, generator=random) for name, shape in shapes.items()}
    tensors["layers.0.post_attention_layernorm.weight"] += 1
    tensors["fc.weight"][:, :hidden] += torch.eye(hidden)
    return tensors


def head_config(model: PreTrainedModel, **fields: Any) -> dict[str, Any]:
    """The config.json of a head, Llama-3 style."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": model.config.hidden_size,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "vocab_size": model.config.vocab_size,
        "bias": False,
    } | fields


def write_head(
    folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], *, binary: bool = False
) -> Path:
    """config.json and model.safetensors or pytorch_model.bin."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    if binary:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors")
    return folder


def write_chat_head(folder: Path, model_folder: Path) -> Path:
    """The head for a model that `write_chat_model` wrote."""
    model = LlamaForCausalLM.from_pretrained(model_folder)
    return write_head(folder, head_config(model), head_tensors(model))
