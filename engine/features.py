"""The target's features of committed tokens, kept so that a head can be switched on in mid-conversation."""

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor


class FeatureStore:
    """Rows [T, F] in one tensor that grows by doubling."""

    def __init__(self) -> None:
        self._rows: Tensor | None = None
        self._length = 0

    def append(self, features: Tensor) -> None:
        """Add rows [n, F]."""
        if self._rows is None:
            self._rows = torch.empty_like(features[:0])
        missing = self._length + len(features) - len(self._rows)
        if missing > 0:
            self._rows = F.pad(self._rows, (0, 0, 0, max(missing, len(self._rows), 256)))
        self._rows[self._length : self._length + len(features)] = features
        self._length += len(features)

    def rows(self, length: int) -> Tensor:
        """The first `length` rows, a view [length, F]."""
        if self._rows is None or length > self._length:
            raise IndexError(f"{length} rows asked for, {self._length} stored")
        return self._rows[:length]

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` rows."""
        self._length = min(self._length, length)
