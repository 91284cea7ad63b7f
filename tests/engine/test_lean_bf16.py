"""Our own decoder in bf16 on a CPU: packed weights, which the model gives up, and attention by products."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch

from engine import (
    Eagle2,
    Engine,
    GenerationSettings,
    LeanTarget,
    StockTarget,
    UnsupportedModelError,
    layer,
    load_eagle_head,
    load_model,
)
from engine.linear import can_pack
from tests.engine.stubs import reply
from tests.engine.test_target import PROMPT, random_tree, read
from tests.engine.tiny import make_model, write_layout

MAPS = Path("/proc/self/maps")

pytestmark = pytest.mark.skipif(not can_pack(torch.bfloat16), reason="this processor has no bf16 products")


@pytest.mark.parametrize(("rows", "length"), [(1, 0), (1, 50), (5, 3), (40, 0), (64, 200)])
@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (4, 4), (40, 1)])
def test_attention_by_products(rows: int, length: int, heads: int, kv_heads: int) -> None:
    """A scale, a mask or the order of folded heads that only the one of the two ways has."""
    random = torch.Generator().manual_seed(rows)
    q = torch.randn(rows, heads, 16, generator=random)
    keys, values = torch.randn(2, kv_heads, length + rows, 16, generator=random)
    bias = torch.zeros(rows, length + rows)
    bias[:, length:].masked_fill_(~random_tree(rows, rows).mask, -torch.inf)
    bias = bias.repeat(heads // kv_heads, 1) if rows > 1 else None
    exact = layer.attend(q, keys, values, bias)
    folded = q.transpose(0, 1).reshape(kv_heads, -1, 16)
    out = layer.attend_by_products(folded, keys, values, bias)
    torch.testing.assert_close(out.view(heads, rows, 16).transpose(0, 1).reshape(rows, -1), exact)
    rounded = layer.attend(
        *(x.bfloat16() for x in (q, keys, values)), None if bias is None else bias.bfloat16()
    )
    assert (rounded.float() - exact).abs().max() < 0.05


def test_products_are_for_many_rows() -> None:
    """A way that is never taken, or taken where its scores would fill the memory."""
    keys = torch.empty(8, 1000, 64, dtype=torch.bfloat16)
    assert layer.products_are_faster(torch.empty(1, 8, 192, 64), keys)
    assert not layer.products_are_faster(torch.empty(1, 8, 3, 64), keys)
    assert not layer.products_are_faster(torch.empty(1, 8, 192, 64), keys.float())
    assert not layer.products_are_faster(torch.empty(1, 8, 5000, 64), keys)


@pytest.mark.parametrize("name", ["llama", "llama-tied", "qwen3"])
def test_a_bf16_model(name: str, tmp_path: Path) -> None:
    """Logits further from the truth than transformers' own; a head that cannot use a packed LM head."""
    exact = make_model(name, spread=0.15)
    rounded = make_model(name, spread=0.15).bfloat16()
    size = rounded.num_parameters()
    with torch.inference_mode():
        truth = read(StockTarget(exact.bfloat16().float()), PROMPT)
        stock_error = (read(StockTarget(rounded), PROMPT).float() - truth).abs().mean()
        target = LeanTarget(rounded)
        assert (read(target, PROMPT).float() - truth).abs().mean() < 1.5 * stock_error
    assert rounded.model.layers[0].mlp.up_proj.weight.is_meta  # given up
    assert rounded.num_parameters() == size
    assert rounded.dtype == torch.bfloat16
    with pytest.raises(UnsupportedModelError, match="load it again"):
        LeanTarget(rounded)
    target.rewind(0)
    head = load_eagle_head(write_layout(tmp_path, "shipped", rounded), target, name)
    engine = Engine(target, {"eagle2": Eagle2(head, nodes=8, depth=3, beam=4)})
    assert len(reply(engine, PROMPT, GenerationSettings(max_new_tokens=20), "eagle2")) == 20


@pytest.mark.skipif(not MAPS.exists(), reason="this system does not say what is mapped")
def test_nothing_of_the_file_stays_in_memory(tmp_path: Path) -> None:
    """One norm left in the mapped file, and all of its pages count beside the packed weights."""
    make_model("llama").bfloat16().save_pretrained(tmp_path)
    model = load_model(tmp_path, torch.bfloat16, torch.device("cpu"))
    assert str(tmp_path) in MAPS.read_text()
    target = LeanTarget(model)
    gc.collect()
    assert str(tmp_path) not in MAPS.read_text()
    assert target.embedding.weight.data_ptr() == target.decoder.embedding.data_ptr()
