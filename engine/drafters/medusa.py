"""Medusa: a head for each depth, which all read the same hidden state of the target (Cai et al., 2024).

Head k bets on the token k places after the next without knowing those between: the candidates of a depth are
the same below every node, and a node's value is the product of what the heads say along its path.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

from engine.drafters.paths import Path, check_paths, parents_of
from engine.drafters.ranking import Ranking
from engine.drafters.residual_head import ResidualHead
from engine.sampling import Sampler
from engine.tree import DraftTree

_PUBLISHED = """
    0 00 1 01 2 000 10 02 3 03 4 04 20 05 001 5 06 6 07 010 11 7 08 002 30 09 8 9 100 020 12 003 40 21 004 005
    0000 011 006 030 50 13 007 008 009 60 040 14 70 012 200 31 22 80 050 15 101 021 90 060 0001 16 070
"""
MEDUSA_TREE: tuple[Path, ...] = tuple(tuple(map(int, path)) for path in _PUBLISHED.split())
"""The tree of the reference implementation for models of every size (`mc_sim_7b_63`): 63 nodes.

In order of what each adds to the accepted length, so that the first ones are a tree too.
"""


def medusa_tree(nodes: int, depth: int) -> tuple[Path, ...]:
    """The first `nodes` of the published tree that are no deeper than `depth`, or all that there are."""
    return tuple(path for path in MEDUSA_TREE if len(path) <= depth)[:nodes]


class MedusaHeads:
    """The heads, the first for depth 1."""

    taps: tuple[int, ...] = (-1,)
    """The target's final normed state."""

    def __init__(self, heads: list[ResidualHead], device: torch.device) -> None:
        self.heads = heads
        self.device = device
        self.target_vocabulary = heads[0].target_vocabulary
        self.words = heads[0].words
        self.shared = all(head.words is self.words for head in heads)

    @property
    def vocabulary(self) -> int:
        """Tokens they can propose, whatever the text is."""
        return self.words.size

    @property
    def draft_vocab(self) -> Tensor | None:
        """[D] target ids of what they can propose now."""
        return self.words.ids

    def outputs(self, feature: Tensor, depth: int) -> Tensor:
        """[depth, H] of the first `depth` heads, which all read `feature` [1, H]."""
        return torch.cat([head.output(feature) for head in self.heads[:depth]])

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, D] fp32 from the outputs [m, H] of the first m heads; one product where the LM head is one."""
        if self.shared:
            return self.words.logits(hidden)
        return torch.cat(
            [head.words.logits(row[None]) for head, row in zip(self.heads, hidden, strict=False)]
        )


class Medusa:
    """Draws the tree of `paths` with one call of the heads."""

    def __init__(self, head: MedusaHeads, paths: tuple[Path, ...] = MEDUSA_TREE) -> None:
        self.head = head
        self.taps = head.taps
        self.paths = check_paths(paths, head.vocabulary, len(head.heads))
        self._parents = parents_of(self.paths, head.device)
        self._rows = torch.tensor([len(path) - 1 for path in self.paths], device=head.device)
        self._ranks = torch.tensor([path[-1] for path in self.paths], device=head.device)
        self._width = 1 + max(path[-1] for path in self.paths)
        along = [[float(path[: len(above)] == above) for above in self.paths] for path in self.paths]
        self._along = torch.tensor(along, device=head.device)  # [n, n], which nodes a path leads over
        self._feature: Tensor | None = None  # [1, H], the target's of the token before the root

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Keep the last feature."""
        self._feature = None if features is None else features[-1:]

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """The tree below the last token."""
        assert self._feature is not None
        self.head.words.read(tokens)
        outputs = self.head.outputs(self._feature.to(self.head.device), len(self.paths[-1]))
        ranking = Ranking(self.head, sampler, len(tokens))
        scores, ids = ranking.best_by_depth(outputs, self._width)  # [depth, width]
        chosen = self._rows, self._ranks
        values = F.pad(self._along @ scores[chosen], (1, 0))  # 0 for the root
        root = torch.tensor(tokens[-1:], device=self.head.device)
        return DraftTree(torch.cat((root, ids[chosen])), self._parents, values)

    def rewind(self, length: int) -> None:
        """The feature is of another text."""
        self._feature = None
        self.head.words.rewind(length)
