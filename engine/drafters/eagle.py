"""EAGLE (1): a draft head and a tree whose shape is fixed (Li et al., ICML 2024).

A node is given by its path, the ranks that lead to it: (0, 2) is the third best child of the best child.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.drafters.draft_head import DraftHead
from engine.drafters.following import Following
from engine.drafters.levels import AtTheEnd
from engine.drafters.ranking import Ranking
from engine.errors import SettingsError
from engine.sampling import Sampler
from engine.tree import DraftTree

Path = tuple[int, ...]
CHAIN: tuple[Path, ...] = ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0, 0))
PUBLISHED: tuple[Path, ...] = (
    *((0,), (1,), (2,), (3,)),
    *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)),
    *((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 0, 0)),
    *((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2)),
    *((0, 0, 0, 0, 0), (0, 0, 0, 0, 1)),
)
"""The tree of the reference implementation: 25 nodes, for models of every size."""


@dataclass(frozen=True)
class _Level:
    """Nodes of one depth, and how they come from the depth above, whose nodes with children are expanded."""

    expanded: Tensor  # [E] places of those among the nodes of the depth above
    outer: Tensor  # [E] places of their parents among those expanded for the depth above
    below: Tensor  # [n] below which of the expanded a node hangs
    ranks: Tensor  # [n] and which of its candidates it is
    width: int  # candidates to draw


class Eagle:
    """Draws the tree of `paths` level by level, whatever the confidences are."""

    def __init__(self, head: DraftHead, paths: tuple[Path, ...] = PUBLISHED) -> None:
        self.head = head
        self.taps = head.taps
        self.paths = check_paths(paths, head.vocabulary)
        number = {path: node for node, path in enumerate(((), *self.paths))}
        self._parents = torch.tensor([-1, *(number[path[:-1]] for path in self.paths)], device=head.device)
        self._levels = _levels(self.paths, head.device)
        self._following = Following(head)

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Run the head over the pairs it has not seen."""
        self._following.features = features
        self._following.catch_up(tokens)

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """The tree below the last token."""
        ranking = Ranking(self.head, sampler, len(tokens))
        hidden = self._following.root(tokens)
        places, rows = AtTheEnd(self.head.layer, self._following.length), 0
        above = places.above(1)
        drawn = torch.tensor(tokens[-1:], device=self.head.device)
        values = torch.zeros(1, device=self.head.device)
        nodes = [(drawn, values)]
        for depth, level in enumerate(self._levels, start=1):
            drawn, values = drawn.index_select(0, level.expanded), values.index_select(0, level.expanded)
            if depth > 1:  # the root's output is there
                above, hidden = above.index_select(0, level.outer), hidden.index_select(0, level.outer)
                cache, positions, above = places.level(depth - 1, rows, above)
                hidden = self.head.forward(drawn, hidden, positions, cache, above)
                rows += len(drawn)
            scores, ids = ranking.best(hidden, depth, level.width)  # [E, width]
            chosen = level.below, level.ranks
            drawn, values = ids[chosen], (values[:, None] + scores)[chosen]
            nodes.append((drawn, values))
        tokens_, values_ = (torch.cat(column) for column in zip(*nodes, strict=True))
        return DraftTree(tokens_, self._parents, values_)

    def rewind(self, length: int) -> None:
        """Keep the first `length` pairs."""
        self._following.rewind(length)


def check_paths(paths: tuple[Path, ...], vocabulary: int) -> tuple[Path, ...]:
    """In order of depth, then of ranks. Raises SettingsError for what is no tree."""
    known = set(paths)
    if not paths or len(known) < len(paths) or () in known:
        raise SettingsError("a tree needs paths of one rank or more, each of them once")
    for path in paths:
        if not all(0 <= rank < vocabulary for rank in path):
            raise SettingsError(f"the tree's path {list(path)} has a rank that no candidate has")
        if path[:-1] and path[:-1] not in known:
            raise SettingsError(f"the tree's path {list(path)} has no parent: add {list(path[:-1])}")
    return tuple(sorted(known, key=lambda path: (len(path), path)))


def _levels(paths: tuple[Path, ...], device: torch.device) -> list[_Level]:
    """Of paths in order."""

    def places(of: list[Path], among: list[Path]) -> Tensor:
        return torch.tensor([among.index(path) for path in of], device=device)

    levels: list[_Level] = []
    outer: list[Path] = [()]  # the root is expanded, and drawn
    before = outer
    for depth in range(1, len(paths[-1]) + 1):
        nodes = [path for path in paths if len(path) == depth]
        expanded = sorted({path[:-1] for path in nodes})
        levels.append(
            _Level(
                expanded=places(expanded, before),
                outer=places([path[:-1] for path in expanded], outer),
                below=places([path[:-1] for path in nodes], expanded),
                ranks=torch.tensor([path[-1] for path in nodes], device=device),
                width=1 + max(path[-1] for path in nodes),
            )
        )
        outer, before = expanded, nodes
    return levels
