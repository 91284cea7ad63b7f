"""A product with weights that stay: packed once for oneDNN where that pays, plain everywhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

ROWS = 16  # a typical round; oneDNN lays weights out for this many rows, and multiplies any number


class Linear:
    """x @ weight.T + bias. Holds the weights either plain or packed, never both unless told to.

    On a CPU `F.linear` repacks the weights at every call, which takes longer than multiplying a few rows by
    them: measured, 1.6 times in bf16 and 2.3 in fp32 for 8 rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, keep_plain: bool = False) -> None:
        """`keep_plain` where `weight` lives on in another place anyway, as a tied LM head does."""
        self.out_features, self.in_features = weight.shape
        self.bias = bias
        self._packed = _pack(weight)
        self._plain = weight if keep_plain or self._packed is None else None

    def __call__(self, x: Tensor) -> Tensor:
        """[m, out] from [m, in]."""
        if self._packed is None:
            return F.linear(x, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")

    @property
    def packed(self) -> bool:
        """Whether products use packed weights."""
        return self._packed is not None

    @property
    def unpacks(self) -> bool:
        """Whether only packed weights are held, so that to look at them takes as long as to pack them."""
        return self._plain is None

    @property
    def weight(self) -> Tensor:
        """[out, in], bit for bit what was given; unpacked at each call where only packed ones are held."""
        if self._plain is not None:
            return self._plain
        assert self._packed is not None
        return self._packed.to_dense()


def fused(weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> Linear:
    """One product for several that read the same input, their outputs side by side."""
    bias = None
    if any(part is not None for part in biases):
        pairs = zip(biases, weights, strict=True)
        bias = torch.cat([w.new_zeros(len(w)) if b is None else b for b, w in pairs])
    return Linear(torch.cat(tuple(weights)) if len(weights) > 1 else weights[0], bias)


def trimmed(linear: nn.Linear | Linear, rows: Tensor | None) -> nn.Linear | Linear:
    """The outputs `rows` alone: an LM head for some of the tokens. Itself where that is None, for all."""
    if rows is None:
        return linear
    bias = None if linear.bias is None else linear.bias[rows].detach()
    return Linear(linear.weight[rows].detach(), bias)


@contextmanager
def with_packed_weights(model: nn.Module) -> Iterator[None]:
    """Inside, the linear layers of somebody else's model multiply by packed copies of their weights."""
    layers = [m for m in model.modules() if type(m) is nn.Linear]  # a subclass computes something else
    try:
        for layer in layers:
            product = Linear(layer.weight.detach(), layer.bias, keep_plain=True)
            if product.packed:
                layer.forward = partial(_flattened, product)  # type: ignore[method-assign]
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


def _flattened(product: Linear, x: Tensor) -> Tensor:
    """[..., out] from [..., in]."""
    return product(x.flatten(0, -2)).view(*x.shape[:-1], product.out_features)


@cache
def can_pack(dtype: torch.dtype) -> bool:
    """Whether this machine and this torch have such products; the operators are not public ones."""
    if not torch.backends.mkldnn.is_available():
        return False
    operators = ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported")
    if not all(hasattr(torch.ops.mkldnn, name) for name in operators):
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


def _pack(weight: Tensor) -> Tensor | None:
    """The weights in oneDNN's layout; None where that is of no use or does not multiply as it should."""
    if weight.device.type != "cpu" or not can_pack(weight.dtype):
        return None
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)
    return packed if _agrees(packed, weight) else None


def _agrees(packed: Tensor, weight: Tensor) -> bool:
    """Compare two rows times the packed weights with the plain product of some of the weights' rows."""
    x = torch.linspace(-1, 1, 2 * weight.shape[1]).view(2, -1).to(weight.dtype)  # [2, in]
    sample = torch.linspace(0, weight.shape[0] - 1, 16).long()  # [16]
    found = torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")[:, sample].float()
    expected = F.linear(x.float(), weight[sample].float())  # [2, 16]
    size = F.linear(x.float().abs(), weight[sample].float().abs())  # of what was added up
    limit = max(torch.finfo(weight.dtype).eps, 1e-5) * size
    return packed.shape == weight.shape and bool(((found - expected).abs() <= limit).all())
