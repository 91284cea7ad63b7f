"""Catch-up, all levels and the rerank of an EAGLE-2 round as one CUDA graph, with one copy to the host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

from engine.drafters.calibration import Calibration
from engine.drafters.levels import InAWindow, Levels
from engine.drafters.ranking import Ranking, best_candidates
from engine.drafters.rerank import below_root, best_of
from engine.graphs import Compute, Graphs
from engine.sampling import GenerationSettings, Sampler
from engine.static import Window, columns_after, reach_of
from engine.tree import DraftTree, Growth

if TYPE_CHECKING:
    from engine.drafters.draft_head import DraftHead


@dataclass(frozen=True)
class Pairs:
    """What the head has not seen: tokens and the true features of those before them, from `start` on."""

    tokens: list[int]  # the last is the root
    features: Tensor  # [len(tokens), F]
    start: int


class StaticDrafting:
    """Trees of `nodes` nodes, all of `depth` levels drawn."""

    def __init__(self, head: DraftHead, nodes: int, depth: int, beam: int) -> None:
        self.head, self.nodes, self.depth, self.beam = head, nodes, depth, beam
        self.width = depth + 1  # pairs at most: what a round can commit
        self._graphs = Graphs(head.device)

    def draft(
        self, pairs: Pairs, ranking: Ranking, calibration: Calibration | None
    ) -> tuple[DraftTree, Tensor]:
        """The tree, its nodes on the host, and the head's output [1, H] at the root."""
        head, layer, settings = self.head, self.head.layer, ranking.sampler.settings
        count = len(pairs.tokens)
        reach = reach_of(pairs.start + self.width + (self.depth - 1) * self.beam)
        layer.at(pairs.start, reach - pairs.start)
        tokens = torch.tensor(pairs.tokens + [0] * (self.width - count))
        features = F.pad(pairs.features, (0, 0, 0, self.width - count))
        numbers = torch.tensor([pairs.start, count])
        depths = range(1, self.depth + 1)
        factors = [calibration.log_factor(d, ranking.sampler.greedy) if calibration else 0.0 for d in depths]
        noise = [torch.zeros(0)] * self.depth
        if not ranking.sampler.greedy:
            noise = [ranking.noise(depth, head.device) for depth in depths]
        given = tokens, features, numbers, torch.tensor(factors), torch.stack(noise)
        filters = settings.temperature, settings.top_k, settings.top_p, settings.min_p
        root, packed, *pool = self._graphs.run(
            (reach, filters),
            (layer.slab.rows, layer.rotary.table, *head.words.memory),
            lambda: self._round(reach, settings),
            given,
        )
        # The next round overwrites these; to copy them while the GPU is at work takes no time.
        root, growth = root.clone(), Growth(*(column.clone() for column in pool))
        return self._unpack(packed.cpu(), pairs.tokens[-1], growth), root

    def cut(self, tree: DraftTree, nodes: int) -> DraftTree:
        """The best `nodes` of a tree alone, as its rerank would have kept them."""
        values, growth = tree.values, tree.growth
        assert values is not None
        assert growth is not None
        best = best_of(values[1:], nodes)
        kept = torch.zeros_like(growth.kept)
        in_pool = best_of(growth.kept.byte(), len(values) - 1)  # in order of creation, as the tree's nodes
        kept.index_fill_(0, in_pool.index_select(0, best.to(kept.device, non_blocking=True)), True)
        tree = tree.only([0, *(1 + best).tolist()])
        return replace(tree, growth=replace(growth, kept=kept))

    def _round(self, reach: int, settings: GenerationSettings) -> Compute:
        head, layer = self.head, self.head.layer
        greedy = Sampler(settings).greedy

        def compute(
            tokens: Tensor, features: Tensor, numbers: Tensor, factors: Tensor, noise: Tensor
        ) -> tuple[Tensor, ...]:
            start, count = numbers[:1], numbers[1:]
            rows = torch.arange(len(tokens), device=start.device)
            window = Window(layer.slab, reach, start, len(tokens))
            causal = columns_after(start, reach) <= rows[:, None]
            hidden = head.forward(tokens, head.fuse(features), start + rows, window, causal)
            root = hidden.index_select(0, count - 1)

            def best(outputs: Tensor, depth: int) -> tuple[Tensor, Tensor]:
                row = None if greedy else noise[depth - 1]
                return best_candidates(head, settings, outputs, self.beam, row, factors[depth - 1])

            levels = Levels(head, root, self.beam, best, InAWindow(layer, reach, start + count))
            for _ in range(self.depth - 1):
                levels.draw()
            growth = levels.growth()
            kept = best_of(growth.values, self.nodes)
            growth.kept.index_fill_(0, kept, True)
            columns = *below_root(growth, kept), growth.values[kept]
            packed = torch.stack([column.double() for column in columns])  # exact for ids too
            return root, packed, growth.tokens, growth.parents, growth.values, growth.expanded, growth.kept

        return compute

    def _unpack(self, packed: Tensor, root: int, growth: Growth) -> DraftTree:
        """From tokens, parents and values [3, nodes]."""
        tokens, parents, values = packed
        return DraftTree(
            tokens=F.pad(tokens.long(), (1, 0), value=root),
            parents=F.pad(parents.long(), (1, 0), value=-1),
            values=F.pad(values.float(), (1, 0)),
            growth=growth,
        )
