"""EAGLE (1): a draft head and a tree whose shape is fixed (Li et al., ICML 2024)."""

from __future__ import annotations

from torch import Tensor

from engine.drafters.draft_head import DraftHead
from engine.drafters.following import Following
from engine.drafters.levels import AtTheEnd
from engine.drafters.paths import Drawing, Path, check_paths, levels_of, parents_of
from engine.drafters.ranking import Ranking
from engine.sampling import Sampler
from engine.tree import DraftTree

CHAIN: tuple[Path, ...] = ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0, 0))
PUBLISHED: tuple[Path, ...] = (
    *((0,), (1,), (2,), (3,)),
    *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)),
    *((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 0, 0)),
    *((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2)),
    *((0, 0, 0, 0, 0), (0, 0, 0, 0, 1)),
)
"""The tree of the reference implementation: 25 nodes, for models of every size."""


class Eagle:
    """Draws the tree of `paths` level by level, whatever the confidences are."""

    def __init__(self, head: DraftHead, paths: tuple[Path, ...] = PUBLISHED) -> None:
        self.head = head
        self.taps = head.taps
        self.paths = check_paths(paths, head.vocabulary)
        self._parents = parents_of(self.paths, head.device)
        self._levels = levels_of(self.paths, head.device)
        self._following = Following(head)

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Run the head over the pairs it has not seen."""
        self._following.features = features
        self._following.catch_up(tokens)

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """The tree below the last token."""
        self.head.words.read(tokens)
        ranking = Ranking(self.head, sampler, len(tokens))
        hidden = self._following.root(tokens)
        places, rows = AtTheEnd(self.head.layer, self._following.length), 0
        above, drawing = places.above(1), Drawing(tokens[-1], self.head.device)
        for depth, level in enumerate(self._levels, start=1):
            drawn = drawing.expand(level)
            if depth > 1:  # the root's output is there
                above, hidden = above.index_select(0, level.outer), hidden.index_select(0, level.outer)
                cache, positions, above = places.level(depth - 1, rows, above)
                hidden = self.head.forward(drawn, hidden, positions, cache, above)
                rows += len(drawn)
            drawing.add(level, *ranking.best(hidden, depth, level.width))
        return drawing.tree(self._parents)

    def rewind(self, length: int) -> None:
        """Keep the first `length` pairs."""
        self._following.rewind(length)
        self.head.words.rewind(length)
