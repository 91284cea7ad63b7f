"""The best linear guess of some numbers from others, from sums over data that need not be kept."""

from __future__ import annotations

import torch
from torch import Tensor

RIDGE = 1e-3  # of the inputs' mean square, added to the diagonal


class LeastSquares:
    """What ridge regression needs of the data."""

    def __init__(self) -> None:
        self.rows = 0
        self._xx: Tensor | float = 0.0
        self._xy: Tensor | float = 0.0
        self._sizes = 0.0

    def add(self, x: Tensor, y: Tensor) -> None:
        """Rows [n, inputs] and what a guess should make of them [n, outputs], fp32."""
        x = torch.cat((x.new_ones(len(x), 1), x), dim=1)
        self._xx = self._xx + x.T @ x
        self._xy = self._xy + x.T @ y
        self._sizes += y.square().mean(-1).sqrt().sum().item()
        self.rows += len(x)

    def solve(self, inputs: int | None = None, outputs: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Weight [outputs, inputs] and bias [outputs], from the first `inputs` to the `outputs` chosen."""
        assert isinstance(self._xx, Tensor)
        assert isinstance(self._xy, Tensor)
        size = len(self._xx) if inputs is None else inputs + 1  # the first is the bias
        xx = self._xx[:size, :size]
        ridge = RIDGE * xx.diagonal().mean() * torch.eye(size)
        solution = torch.linalg.solve(xx + ridge, self._xy[:size, outputs])
        return solution[1:].T, solution[0]

    def output_scale(self) -> float:
        """Mean root of the mean square of an output."""
        return self._sizes / max(1, self.rows)
