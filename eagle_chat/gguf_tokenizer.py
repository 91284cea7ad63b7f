"""A GGUF file's vocabulary as the tokenizer files that transformers loads.

transformers builds the tokenizer; what it leaves out is added here. By itself it splits text by GPT-2's rule
where it does not know a file's own (so that SmolLM2's digits would merge), and silently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagle_chat.errors import UsageError
from eagle_chat.gguf_file import GgufFile

BYTE_LEVEL, SENTENCE_PIECE = "gpt2", "llama"  # tokenizer.ggml.model
DIGITS_ALONE = ("smollm",)  # tokenizer.ggml.pre: every digit by itself, then GPT-2's rule
BY_GPT2 = ("gpt-2",)
WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "tekken")  # a word of the vocabulary needs no merges
COMPOSED = ("qwen2", "deepseek-r1-qwen")  # text is normalised to NFC first
ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}


def check_tokenizer(gguf: GgufFile) -> None:
    """Raises UsageError for a vocabulary that cannot be read as the model's authors meant it."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    kind, rule = (gguf.metadata.get(f"tokenizer.ggml.{key}") for key in ("model", "pre"))
    if "tokenizer.ggml.tokens" not in gguf.metadata or kind not in (BYTE_LEVEL, SENTENCE_PIECE):
        raise UsageError(
            f"{gguf.path} has no tokenizer of a kind that is read from GGUF ({kind}): use the model's folder "
            "of safetensors files."
        )
    if kind == BYTE_LEVEL and rule not in (*GGUF_PRE_TOKENIZER_SPLITS, *DIGITS_ALONE, *BY_GPT2):
        raise UsageError(
            f"{gguf.path} splits text by a rule that is not known here (tokenizer.ggml.pre is {rule}): get a "
            "newer conversion, or use the model's folder of safetensors files."
        )


def write_tokenizer(gguf: GgufFile, folder: Path) -> None:
    """tokenizer.json, its configuration and the chat template, if there is one."""
    metadata = gguf.metadata
    # Not by its own `save`, whose errors are of no kind: a full disk would be a traceback.
    built: str = _built(gguf.architecture, metadata).to_str()
    (folder / "tokenizer.json").write_text(built + "\n", encoding="utf-8", newline="\n")
    tokens = metadata["tokenizer.ggml.tokens"]
    ids = {role: metadata.get(f"tokenizer.ggml.{key}_token_id") for role, key in ROLES.items()}
    named = {f"{role}_token": tokens[number] for role, number in ids.items() if number is not None}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": metadata[f"{gguf.architecture}.context_length"],
        "clean_up_tokenization_spaces": False,
    }
    text = json.dumps(named | settings, indent=1, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8", newline="\n")
    if template := metadata.get("tokenizer.chat_template"):
        (folder / "chat_template.jinja").write_text(str(template), encoding="utf-8", newline="\n")


def _built(architecture: str, metadata: Mapping[str, Any]) -> Any:
    from tokenizers import normalizers, pre_tokenizers
    from transformers.integrations.gguf import GGUF_TOKENIZER_MAPPING, convert_gguf_tokenizer

    names = GGUF_TOKENIZER_MAPPING["tokenizer"].items()
    parts = {name: metadata[f"tokenizer.{key}"] for key, name in names if f"tokenizer.{key}" in metadata}
    tokenizer, _ = convert_gguf_tokenizer(architecture, parts)
    if parts["tokenizer_type"] == SENTENCE_PIECE:
        # The space before a text is one more, also before one that begins with a space, and after a control
        # token: as in the tokenizers that Llama 2 and Vicuna were published with.
        before = [normalizers.Prepend("▁")] if parts.get("add_prefix_space", True) else []
        tokenizer.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", "▁")])
        tokenizer.pre_tokenizer = None
        return tokenizer
    rule = parts.get("pre_tokenizer_type")
    if rule in DIGITS_ALONE:
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level])
    if rule in WHOLE_WORDS:
        tokenizer.model.ignore_merges = True
    if rule in COMPOSED:
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer
