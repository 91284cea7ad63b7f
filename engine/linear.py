"""A product with weights that stay: packed once for oneDNN where that pays, plain everywhere else."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

ROWS = 16  # a typical round; oneDNN lays weights out for this many rows, and multiplies any number


class Linear:
    """x @ weight.T + bias. Holds the weights either plain or packed, never both unless told to.

    `F.linear` repacks bf16 weights at every call on a CPU, which takes longer than multiplying a few rows by
    them.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, keep_plain: bool = False) -> None:
        """`keep_plain` where `weight` lives on in another place anyway, as a tied LM head does."""
        self.shape = weight.shape  # [out, in]
        self.dtype, self.device = weight.dtype, weight.device
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
    def weight(self) -> Tensor:
        """[out, in], bit for bit what was given; unpacked at each call where only packed ones are held."""
        if self._plain is not None:
            return self._plain
        assert self._packed is not None
        return self._packed.to_dense()


@cache
def has_bf16_products() -> bool:
    """Whether this machine and this torch have oneDNN's bf16 products; the operators are not public ones."""
    if not torch.backends.mkldnn.is_available():
        return False
    operators = ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported")
    if not all(hasattr(torch.ops.mkldnn, name) for name in operators):
        return False
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _pack(weight: Tensor) -> Tensor | None:
    """The weights in oneDNN's layout; None where that is of no use or does not multiply as it should."""
    if weight.device.type != "cpu" or weight.dtype != torch.bfloat16 or not has_bf16_products():
        return None
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)
    return packed if _agrees(packed, weight) else None


def _agrees(packed: Tensor, weight: Tensor) -> bool:
    """Compare two rows times the packed weights with the plain product of some of the weights' rows."""
    x = torch.linspace(-1, 1, 2 * weight.shape[1]).view(2, -1).bfloat16()  # [2, in]
    sample = torch.linspace(0, weight.shape[0] - 1, 16).long()  # [16]
    found = torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")[:, sample].float()
    expected = F.linear(x.float(), weight[sample].float())  # [2, 16]
    limit = 0.01 * float(expected.abs().max())  # bf16 keeps 8 bits
    return packed.shape == weight.shape and bool((found - expected).abs().max() <= limit)
