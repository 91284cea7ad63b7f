"""A one-layer model in a wheel: the default model's formats and metadata in a few kilobytes."""

import hashlib
import zipfile
from pathlib import Path

import numpy as np

from eagle_chat.events import Loading
from eagle_chat.wheel import Source

MEMBER = "tiny/tiny.gguf"
HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 16, 4, 2, 4
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "H", "i", "Hi", "Ġ", "Ċ", *"0123456789", "1 ", "12"]
WHEEL_NAME = "tiny-1-py3-none-any.whl"


def silent(event: Loading) -> None:
    """A watcher that does not look."""


def write_gguf(path: Path) -> Path:
    """The model as a GGUF file."""
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize

    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(32)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(100000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(TOKENS))
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3] + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["H i", "1 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}")
    shapes = {
        "token_embd": (len(TOKENS), HIDDEN),
        "output_norm": (HIDDEN,),
        "blk.0.attn_norm": (HIDDEN,),
        "blk.0.attn_q": (HEADS * HEAD_DIM, HIDDEN),
        "blk.0.attn_k": (KV_HEADS * HEAD_DIM, HIDDEN),
        "blk.0.attn_v": (KV_HEADS * HEAD_DIM, HIDDEN),
        "blk.0.attn_output": (HIDDEN, HEADS * HEAD_DIM),
        "blk.0.ffn_norm": (HIDDEN,),
        "blk.0.ffn_gate": (32, HIDDEN),
        "blk.0.ffn_up": (32, HIDDEN),
        "blk.0.ffn_down": (HIDDEN, 32),
    }
    for i, (name, shape) in enumerate(shapes.items()):
        values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + i
        kind = GGMLQuantizationType.BF16 if len(shape) > 1 else GGMLQuantizationType.F32
        writer.add_tensor(f"{name}.weight", quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_wheel(path: Path, gguf: Path) -> Path:
    """The file as the member of a wheel that pip accepts."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(gguf, MEMBER)
        about = "tiny-1.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def source_of(gguf: Path) -> Source:
    """What `smollm2.SOURCE` is to the real file."""
    data = gguf.read_bytes()
    return Source("tiny==1", MEMBER, len(data), hashlib.sha256(data).hexdigest(), download_size=len(data))
