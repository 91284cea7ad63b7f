"""EAGLE's fixed tree with as many nodes as another tree has, so that only the shape differs."""

from __future__ import annotations

from collections.abc import Iterator

from engine import PUBLISHED
from engine.drafters.eagle import Path


def fixed_tree(nodes: int) -> tuple[Path, ...]:
    """The published tree's likeliest paths, and more of them where it has fewer than `nodes`.

    A rank counts as half as likely as the one above it. That is a guess, which fits the published tree well:
    all of its paths are among the likeliest 63, and all of the likeliest 15 are in it.
    """
    chosen = sorted(PUBLISHED, key=_unlikeliness)[:nodes]
    known = set(PUBLISHED)
    cost = 1
    while len(chosen) < nodes:
        further = [path for path in _paths(cost) if path not in known]
        chosen += further[: nodes - len(chosen)]
        cost += 1
    return tuple(chosen)


def _unlikeliness(path: Path) -> int:
    return sum(rank + 1 for rank in path)


def _paths(cost: int) -> Iterator[Path]:
    """All paths that are so unlikely."""
    for rank in range(cost - 1):
        for below in _paths(cost - rank - 1):
            yield rank, *below
    yield (cost - 1,)
