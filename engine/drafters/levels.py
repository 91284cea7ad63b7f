"""EAGLE-2's tree level by level, as the loop draws it and as a CUDA graph holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import torch
from torch import Tensor

from engine.drafters.ablation import Ablation
from engine.drafters.head_layer import HeadLayer
from engine.layer import Cache
from engine.static import Window, columns_after
from engine.tree import Growth

if TYPE_CHECKING:
    from engine.drafters.draft_head import DraftHead

Best: TypeAlias = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""Outputs [m, H] at a depth to log-confidences and target ids [m, K] of the best candidates."""


class Places(Protocol):
    """Where drafted rows go in the head's cache, and what they see of it."""

    def above(self, rows: int) -> Tensor:
        """[rows, T] bool, what children of the root see beside themselves."""

    def level(self, depth: int, offset: int, above: Tensor) -> tuple[Cache, Tensor, Tensor]:
        """Of nodes at `depth`, after `offset` drafted rows: their cache, positions [K], and what they see.

        That is [K, T]: what stands above them, and themselves.
        """


class AtTheEnd:
    """After the first `length` rows, which grow with every level."""

    def __init__(self, layer: HeadLayer, length: int) -> None:
        self._layer, self._length = layer, length

    def above(self, rows: int) -> Tensor:
        """All that is cached."""
        return torch.ones(rows, self._length, dtype=torch.bool, device=self._layer.device)

    def level(self, depth: int, offset: int, above: Tensor) -> tuple[Cache, Tensor, Tensor]:
        """A level's rows follow those of the level before."""
        k, device = len(above), above.device
        cache = self._layer.at(self._length + offset, k)
        positions = torch.full((k,), self._length + depth - 1, device=device)
        return cache, positions, torch.cat((above, torch.eye(k, dtype=torch.bool, device=device)), dim=1)


class InAWindow:
    """The same rows of a window of fixed size, after a length that only the device knows, [1]."""

    def __init__(self, layer: HeadLayer, reach: int, length: Tensor) -> None:
        self._layer, self._reach, self._length = layer, reach, length

    def above(self, rows: int) -> Tensor:
        """All that is cached."""
        return (columns_after(self._length, self._reach) < 0).expand(rows, -1)

    def level(self, depth: int, offset: int, above: Tensor) -> tuple[Cache, Tensor, Tensor]:
        """A level's rows follow those of the level before."""
        k = len(above)
        start = self._length + offset
        itself = columns_after(start, self._reach) == torch.arange(k, device=start.device)[:, None]
        cache = Window(self._layer.slab, self._reach, start, k)
        return cache, (self._length + depth - 1).expand(k), above | itself


class Levels:
    """A tree under construction: `beam` candidates below the root, then below each of the `beam` best."""

    def __init__(
        self,
        head: DraftHead,
        root: Tensor,
        beam: int,
        best: Best,
        places: Places,
        ablation: Ablation | None = None,
    ) -> None:
        """`root` is the head's output [1, H] at the root."""
        self._head, self._best, self._places, self._ablation = head, best, places, ablation
        self.values, self._tokens = (row[0] for row in best(root, 1))  # [K] of the nodes to expand next
        self._features = root.expand(beam, -1)  # [K, H] their parents' outputs
        self._frontier = torch.arange(beam, device=root.device)  # [K] their places in the pool
        self._above = places.above(beam)
        self._pool = [(self._tokens, torch.full_like(self._tokens, -1), self.values)]
        self._expanded: list[Tensor] = []

    def draw(self) -> tuple[Tensor, Tensor]:
        """One more level: log-confidences [K, K], best first, and values [K * K] of its candidates."""
        k, depth = len(self.values), 1 + len(self._expanded)  # of the nodes it expands
        first = (depth - 1) * k
        cache, positions, visible = self._places.level(depth, first, self._above)
        hidden = self._head.forward(self._tokens, self._features, positions, cache, visible)
        scores, ids = self._best(hidden, depth + 1)  # [K, K]
        values, children = (self.values[:, None] + scores).flatten(), ids.flatten()  # [K * K]
        self._pool.append((children, self._frontier.repeat_interleave(k), values))
        self._expanded.append(self._frontier)
        # The K best of the new level are expanded next; a stable sort keeps ties in order of creation.
        order = self._ablation.order(values, scores.flatten()) if self._ablation else values
        best = order.sort(descending=True, stable=True).indices[:k]
        parents = best // k
        self._tokens, self.values = (row.index_select(0, best) for row in (children, values))
        self._features, self._above = (rows.index_select(0, parents) for rows in (hidden, visible))
        self._frontier = k + first * k + best
        return scores, values

    def chosen(self) -> Tensor:
        """[n], the nodes that were expanded, and those that would be next."""
        return torch.cat([*self._expanded, self._frontier])

    def growth(self) -> Growth:
        """All that was drawn."""
        tokens, parents, values = (torch.cat(column) for column in zip(*self._pool, strict=True))
        expanded = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
        if self._expanded:
            expanded.index_fill_(0, torch.cat(self._expanded), True)
        return Growth(tokens, parents, values, expanded, kept=torch.zeros_like(expanded))
