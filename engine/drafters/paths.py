"""Trees of a fixed shape. A node is given by its path, the ranks that lead to it from the root.

(0, 2) is the third best child of the best child.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import SettingsError
from engine.tree import DraftTree

Path = tuple[int, ...]


@dataclass(frozen=True)
class Level:
    """Nodes of one depth, and how they come from the depth above, whose nodes with children are expanded."""

    expanded: Tensor  # [E] places of those among the nodes of the depth above
    outer: Tensor  # [E] places of their parents among those expanded for the depth above
    below: Tensor  # [n] below which of the expanded a node hangs
    ranks: Tensor  # [n] and which of its candidates it is
    width: int  # candidates to draw


class Drawing:
    """A tree of fixed shape while its levels are drawn."""

    def __init__(self, root: int, device: torch.device) -> None:
        self._nodes = [(torch.tensor([root], device=device), torch.zeros(1, device=device))]  # by depth
        self._values = self._nodes[0][1]  # of the expanded nodes

    def expand(self, level: Level) -> Tensor:
        """Tokens [E] of the nodes, drawn last, that this level continues."""
        tokens, values = self._nodes[-1]
        self._values = values.index_select(0, level.expanded)
        return tokens.index_select(0, level.expanded)

    def add(self, level: Level, scores: Tensor, ids: Tensor) -> None:
        """Its nodes, of the candidates' log-confidences and ids [E, width]."""
        chosen = level.below, level.ranks
        self._nodes.append((ids[chosen], (self._values[:, None] + scores)[chosen]))

    def tree(self, parents: Tensor) -> DraftTree:
        """All that was drawn."""
        tokens, values = (torch.cat(column) for column in zip(*self._nodes, strict=True))
        return DraftTree(tokens, parents, values)


def check_paths(paths: tuple[Path, ...], vocabulary: int, heads: int | None = None) -> tuple[Path, ...]:
    """In order of depth, then of ranks. Raises SettingsError for what is no tree, or too deep for `heads`."""
    known = set(paths)
    if not paths or len(known) < len(paths) or () in known:
        raise SettingsError("a tree needs paths of one rank or more, each of them once")
    for path in paths:
        if not all(0 <= rank < vocabulary for rank in path):
            raise SettingsError(f"the tree's path {list(path)} has a rank that no candidate has")
        if path[:-1] and path[:-1] not in known:
            raise SettingsError(f"the tree's path {list(path)} has no parent: add {list(path[:-1])}")
        if heads is not None and len(path) > heads:
            raise SettingsError(f"the tree's path {list(path)} is longer than the {heads} heads reach")
    return tuple(sorted(known, key=lambda path: (len(path), path)))


def parents_of(paths: tuple[Path, ...], device: torch.device) -> Tensor:
    """[N], of the root and of paths in order."""
    number = {path: node for node, path in enumerate(((), *paths))}
    return torch.tensor([-1, *(number[path[:-1]] for path in paths)], device=device)


def levels_of(paths: tuple[Path, ...], device: torch.device) -> list[Level]:
    """Of paths in order."""

    def places(of: list[Path], among: list[Path]) -> Tensor:
        return torch.tensor([among.index(path) for path in of], device=device)

    levels: list[Level] = []
    outer: list[Path] = [()]  # the root is expanded, and drawn
    before = outer
    for depth in range(1, len(paths[-1]) + 1):
        nodes = [path for path in paths if len(path) == depth]
        expanded = sorted({path[:-1] for path in nodes})
        levels.append(
            Level(
                expanded=places(expanded, before),
                outer=places([path[:-1] for path in expanded], outer),
                below=places([path[:-1] for path in nodes], expanded),
                ranks=torch.tensor([path[-1] for path in nodes], device=device),
                width=1 + max(path[-1] for path in nodes),
            )
        )
        outer, before = expanded, nodes
    return levels
