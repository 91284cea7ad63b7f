"""Forwards whose shapes stay while the text grows: how long it is, is a number on the device.

A CUDA graph holds addresses and shapes. So new keys and values go to rows that a tensor names, attention
reads a whole stretch of the slab and gives what does not count no weight, and trees are padded to one of a
few widths. Elsewhere than on CUDA this costs time and brings nothing; it runs there to be tested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.graphs import Compute, Graphs
from engine.layer import Slab
from engine.tree import DraftTree

if TYPE_CHECKING:
    from engine.lean import LeanTarget

WIDTHS = (1, 8, 16, 32, 64, 96)  # rows of a verification
SHORTEST_REACH = 256  # rows of the slab that are read; then doubled


class Window:
    """The first `reach` rows of a slab, to be written from row `start` on, [1] on the device."""

    def __init__(self, slab: Slab, reach: int, start: Tensor, rows: int) -> None:
        self._rows = slab.rows[:, :, :, :reach]
        self._index = start + torch.arange(rows, device=start.device)  # [m]

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's k and v [m, kv_heads, head_dim]; all rows, [kv_heads, reach, head_dim]."""
        keys, values = self._rows[layer].unbind()
        keys.index_copy_(1, self._index, k.transpose(0, 1))
        values.index_copy_(1, self._index, v.transpose(0, 1))
        return keys, values


def columns_after(start: Tensor, reach: int) -> Tensor:
    """[reach], how far behind `start` each row of a window lies: negative before it."""
    return torch.arange(reach, device=start.device) - start


def reach_of(rows: int) -> int:
    """The stretch to read where so many rows count or are written."""
    return max(SHORTEST_REACH, 1 << (rows - 1).bit_length())


class StaticVerification:
    """`LeanTarget.verify` with a graph for each width and reach, of a target that is on one device."""

    def __init__(self, target: LeanTarget) -> None:
        self._target = target
        self._graphs = Graphs(target.device)

    def verify(self, tree: DraftTree) -> tuple[Tensor, Tensor | None]:
        """Logits [N, V] and features [N, F], until the next call; N is one of WIDTHS at most."""
        target, n = self._target, len(tree)
        width = next(width for width in WIDTHS if width >= n)
        reach = reach_of(target.length + width)
        target.reserve(reach - target.length)
        tokens, depths = torch.zeros(2, width, dtype=torch.long)
        tokens[:n], depths[:n] = torch.tensor(tree.host.tokens), torch.tensor(tree.depths)
        visible = torch.eye(width, dtype=torch.bool)  # rows that pad see themselves
        visible[:n, :n] = tree.mask
        start = torch.tensor([target.length])
        logits, *features = self._graphs.run(
            (width, reach, target.taps),
            (target.slabs[0].rows, target.decoder.rotary.table),
            lambda: self._forward(reach),
            (tokens, depths, visible, start),
        )
        return logits[:n], features[0][:n] if features else None

    def _forward(self, reach: int) -> Compute:
        target = self._target
        decoder, wanted = target.decoder, target.wanted

        def forward(tokens: Tensor, depths: Tensor, visible: Tensor, start: Tensor) -> tuple[Tensor, ...]:
            columns, last = columns_after(start, reach), len(tokens) - 1
            inside = visible.index_select(1, columns.clamp(0, last))  # [W, reach]
            seen = (columns < 0) | (inside & (columns <= last))
            bias = decoder.embedding.new_zeros(seen.shape).masked_fill_(~seen, -torch.inf)
            window = Window(target.slabs[0], reach, start, len(tokens))
            states = decoder.forward(tokens, start + depths, [window], bias, wanted)
            logits = decoder.head(states[len(decoder.layers)])
            return (logits, torch.cat([states[i] for i in wanted], dim=-1)) if wanted else (logits,)

        return forward
