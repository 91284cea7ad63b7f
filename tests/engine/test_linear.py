"""Packed weights: the operators are not public ones, so their presence and their product are checked here."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from engine import linear
from engine.linear import Linear, has_bf16_products

packing = pytest.mark.skipif(not has_bf16_products(), reason="this processor has no bf16 products")


def weights(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)).bfloat16()


def test_torch_has_the_operators() -> None:
    """A torch that renamed them would silently decode at half the speed."""
    for name in ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported"):
        assert hasattr(torch.ops.mkldnn, name)


@packing
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(960, 576), (1, 32), (97, 32), (49, 1537)])
def test_packed_products_are_right(rows: int, columns: int, with_bias: bool) -> None:
    """A layout that suits another number of rows, or a shape that is no multiple of a vector."""
    weight, bias = weights(rows, columns), weights(1, rows)[0] if with_bias else None
    packed = Linear(weight, bias)
    assert packed.packed
    for m in (1, 2, 7, 16, 61, 512):
        x = weights(m, columns)
        exact = F.linear(x.float(), weight.float(), None if bias is None else bias.float())
        error = (packed(x).float() - exact).abs().max()
        assert error <= 1.01 * (F.linear(x, weight, bias).float() - exact).abs().max() + 1e-6


@packing
def test_packed_weights_come_back() -> None:
    """Heads take rows of a packed LM head: they must be those that were packed, and not be held twice."""
    weight = weights(97, 32)
    packed = Linear(weight)
    assert packed.shape == weight.shape
    assert torch.equal(packed.weight, weight)
    assert packed.weight.data_ptr() != packed.weight.data_ptr()
    assert Linear(weight, keep_plain=True).weight is weight


@packing
def test_a_wrong_product_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A self-check that passes whatever it sees."""
    weight = weights(97, 32)
    reorder = torch.ops.mkldnn._reorder_linear_weight
    wrong = weight.clone()
    wrong[96, 31] += 8
    assert linear._agrees(reorder(weight, 16), weight)
    assert not linear._agrees(reorder(wrong, 16), weight)
    assert not linear._agrees(reorder(weight.flip(0), 16), weight)
    monkeypatch.setattr(linear, "_agrees", lambda packed, weight: False)
    plain = Linear(weight)
    assert not plain.packed
    assert torch.equal(plain(weight), F.linear(weight, weight))


def test_other_types_stay_plain() -> None:
    """fp32 and fp16 have no packed product here."""
    for dtype in (torch.float32, torch.float16):
        plain = Linear(weights(97, 32).to(dtype))
        assert not plain.packed
        assert plain.weight is plain.weight
