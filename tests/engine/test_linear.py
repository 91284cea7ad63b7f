"""Packed weights: the operators are not public ones, so their presence and their product are checked here."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from engine import linear
from engine.linear import Linear, can_pack, with_packed_weights

DTYPES = [
    pytest.param(
        dtype, marks=pytest.mark.skipif(not can_pack(dtype), reason=f"no packed products in {dtype}")
    )
    for dtype in (torch.float32, torch.bfloat16)
]


def random(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)).to(dtype)


def test_torch_has_the_operators() -> None:
    """A torch that renamed them would silently decode at half the speed."""
    for name in ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported"):
        assert hasattr(torch.ops.mkldnn, name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(960, 576), (1, 32), (97, 32), (49, 1537)])
def test_packed_products_are_right(rows: int, columns: int, with_bias: bool, dtype: torch.dtype) -> None:
    """A layout that suits another number of rows, or a shape that is no multiple of a vector."""
    weight, bias = random(rows, columns, dtype), random(1, rows, dtype)[0] if with_bias else None
    packed = Linear(weight, bias)
    assert packed.packed
    for m in (1, 2, 7, 16, 61, 512):
        x = random(m, columns, dtype)
        exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
        error, usual = ((y.double() - exact).abs().max() for y in (packed(x), F.linear(x, weight, bias)))
        assert error <= 4 * usual + 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
def test_packed_weights_come_back(dtype: torch.dtype) -> None:
    """Heads take rows of a packed LM head: they must be those that were packed, and not be held twice."""
    weight = random(97, 32, dtype)
    packed = Linear(weight)
    assert (packed.out_features, packed.in_features) == weight.shape
    assert torch.equal(packed.weight, weight)
    assert packed.weight.data_ptr() != weight.data_ptr()
    assert Linear(weight, keep_plain=True).weight is weight


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_wrong_product_is_noticed(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """A self-check that passes whatever it sees."""
    weight = random(97, 32, dtype)
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
    """fp16 has no packed product here."""
    plain = Linear(random(97, 32, torch.float16))
    assert not plain.packed
    assert plain.weight is plain.weight


@pytest.mark.parametrize("dtype", DTYPES)
def test_somebody_elses_layers_are_packed_for_a_while(dtype: torch.dtype) -> None:
    """Training would go on with weights that packed products no longer follow."""
    model = torch.nn.Sequential(torch.nn.Linear(32, 97), torch.nn.ReLU(), torch.nn.Linear(97, 8)).to(dtype)
    x = random(6, 32, dtype).view(2, 3, 32)
    with torch.inference_mode():
        plain = model(x)
        with with_packed_weights(model):
            assert all("forward" in layer.__dict__ for layer in (model[0], model[2]))
            assert torch.allclose(model(x), plain, rtol=2e-2, atol=2e-2)
        model[2].bias += 1
        assert torch.allclose(model(x), plain + 1, rtol=2e-2, atol=2e-2)
    assert not any("forward" in layer.__dict__ for layer in model)
