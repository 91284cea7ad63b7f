"""How large drafts are: as published with a head, by device and target, or as the user said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

from eagle_chat.catalogue import entry_for
from eagle_chat.errors import UsageError
from eagle_chat.methods import CARDS, HEADS, TREE, Method
from eagle_chat.model_facts import known_model
from eagle_chat.options import Options, Quant

if TYPE_CHECKING:
    import torch

    from engine import Costs, Drafter, Engine


@dataclass(frozen=True)
class TreeSize:
    """Nodes, depth and beam of one method; a chain has a beam of 1.

    The beam of prompt lookup is the number of continuations, lookahead's the width of the window.
    """

    nodes: int
    depth: int
    beam: int


# A GPU verifies 60 nodes in nearly the time of one; on a CPU every row costs, and few levels pay.
_ON_GPU: dict[str, TreeSize] = {
    Method.NONE: TreeSize(0, 0, 0),
    Method.EAGLE2: TreeSize(60, 6, 10),
    Method.EAGLE3: TreeSize(60, 8, 10),
    Method.EAGLE: TreeSize(25, 5, 4),
    Method.MEDUSA: TreeSize(63, 4, 10),
    Method.HYDRA: TreeSize(63, 4, 10),
    Method.PLD: TreeSize(60, 10, 8),
    Method.LOOKAHEAD: TreeSize(119, 4, 15),
    Method.DRAFT_MODEL: TreeSize(5, 5, 1),
}
_ON_CPU: dict[str, TreeSize] = {
    Method.NONE: TreeSize(0, 0, 0),
    Method.EAGLE2: TreeSize(8, 3, 4),
    Method.EAGLE3: TreeSize(8, 3, 4),
    Method.EAGLE: TreeSize(25, 5, 4),
    Method.MEDUSA: TreeSize(8, 4, 10),
    Method.HYDRA: TreeSize(8, 4, 10),
    Method.PLD: TreeSize(8, 6, 2),
    Method.LOOKAHEAD: TreeSize(15, 2, 4),
    Method.DRAFT_MODEL: TreeSize(3, 3, 1),
}


def largest_tree(method: Method, device: torch.device) -> TreeSize:
    """The bounds of trees that are sized by their cost: on a CPU that stops them long before."""
    is_cpu = device.type == "cpu"
    if method is Method.PLD:
        return TreeSize(20, 10, 2) if is_cpu else TreeSize(60, 10, 8)
    return TreeSize(60, 8, 6) if is_cpu else TreeSize(60, 8, 10)


def tree_size(options: Options, method: Method, device: torch.device) -> TreeSize:
    """The defaults of target, method and device, changed where the user said so."""
    from engine import PUBLISHED, check_tree_size

    card, given = CARDS[method], given_size(options)
    for name in given:
        if name not in card.sizes:
            raise UsageError(f"--{name} has no use with --method {method}, which {card.shape}: leave it out")
    default = _default(options, method, device)
    size = replace(default, **given)
    if method is Method.EAGLE:
        paths = [path for path in PUBLISHED if len(path) <= size.depth]
        return replace(size, nodes=len(paths), depth=max(map(len, paths)))
    if method in (Method.MEDUSA, Method.HYDRA):
        return _checked(method, size)
    if method is Method.LOOKAHEAD:
        return lookahead_size(size.depth, size.beam)
    if method is Method.PLD:
        return size if "nodes" in given else replace(size, nodes=max(size.nodes, size.depth))
    if card.needs in HEADS:
        if "beam" not in given and size.nodes > default.nodes:
            size = replace(size, beam=max(size.beam, _beam_for(size.nodes)))
        check_tree_size(size.nodes, size.depth, size.beam)
        return size
    return replace(size, nodes=size.depth)


def _beam_for(nodes: int) -> int:
    """As 60 nodes have 10: a tree with more nodes than its default is narrow with the default's beam.

    Measured on SmolLM2-135M, 60 nodes, depth 6: τ 2.37 at beam 4, 2.59 at 10, 2.65 at 16.
    """
    paper = _ON_GPU[Method.EAGLE2]
    return int(paper.beam * sqrt(nodes / paper.nodes))


def lookahead_size(depth: int, width: int) -> TreeSize:
    """Of a full window, whose first column begins with the root, and as many n-grams."""
    return TreeSize(2 * depth * width - 1, depth, width)


def _checked(method: Method, size: TreeSize) -> TreeSize:
    """What the published tree has, or less."""
    whole = _ON_GPU[method]
    if size.nodes > whole.nodes or size.depth > whole.depth:
        raise UsageError(
            f"the tree of {method} has {whole.nodes} nodes and a depth of {whole.depth}: lower --nodes or "
            "--depth"
        )
    return size


def given_size(options: Options) -> dict[str, int]:
    """What the options say of the tree."""
    sizes = {name: getattr(options, name) for name in TREE}
    return {name: size for name, size in sizes.items() if size is not None}


def _default(options: Options, method: Method, device: torch.device) -> TreeSize:
    """What has none of its own has that of the head: ablations are compared at one size.

    On a GPU half as many nodes where a row is not nearly free: with 4-bit weights, which one token reads so
    fast that a tree of 60 takes noticeably longer (SpecMQuant, arXiv 2505.22179), and with experts, of which
    every node may read others (EAGLE's issue 71, on Mixtral). What is published for a target counts while its
    weights are whole. Trees that are sized by cost need none of this: they follow what was measured.
    """
    own, head = method.value, CARDS[method].needs.value
    if device.type == "cpu":
        return _ON_CPU.get(own) or _ON_CPU[head]
    known = entry_for(options.model)
    published = known.trees.get(head) if known is not None and method is not Method.EAGLE else None
    size = TreeSize(*published) if published else _ON_GPU.get(own) or _ON_GPU[head]
    costly = options.quant is Quant.NF4 or (published is None and _has_experts(options.model))
    return _halved(method, size) if costly else size


def _has_experts(model: str) -> bool:
    known = known_model(model)
    return known is not None and known.shape.experts > 0


def _halved(method: Method, size: TreeSize) -> TreeSize:
    """As deep, with half the nodes. EAGLE's own tree has one shape, and a chain has nothing to spare."""
    if method is Method.LOOKAHEAD:
        return lookahead_size(size.depth, size.beam // 2)
    if method is Method.EAGLE or size.beam <= 1:
        return size
    return replace(size, nodes=size.nodes // 2)


def size_by_cost(engine: Engine, prompt: list[int]) -> None:
    """Have the drafters choose their trees by what forwards cost, which is measured once."""
    from engine import measure_costs

    if engine.costs is None:
        engine.reset()
        engine.costs = measure_costs(engine.target, prompt)
    follow_costs(engine.drafters.values(), engine.costs)


def follow_costs(drafters: Iterable[Drafter], costs: Costs) -> None:
    """Have those that can choose their trees by `costs`."""
    from engine import Eagle2, Grafted, PromptLookup, TreeSizing

    for drafter in drafters:
        grown = drafter.eagle if isinstance(drafter, Grafted) else drafter
        if isinstance(grown, Eagle2) and not grown.ablation:
            grown.sizing = TreeSizing(costs, grown.nodes)
        if isinstance(drafter, Grafted | PromptLookup):
            drafter.costs = costs
