"""How large drafts are: defaults by method and device, what the user says of it, and changes on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eagle_chat.errors import UsageError
from eagle_chat.options import WITH_HEAD, Method

if TYPE_CHECKING:
    import torch

    from engine import Drafter, Engine


@dataclass(frozen=True)
class TreeSize:
    """Nodes, depth and beam of one method; a chain has a beam of 1."""

    nodes: int
    depth: int
    beam: int


# A GPU verifies 60 nodes in nearly the time of one; on a CPU every row costs, and few levels pay.
_ON_GPU = {
    Method.EAGLE2: TreeSize(60, 6, 10),
    Method.EAGLE3: TreeSize(60, 8, 10),
    Method.PLD: TreeSize(10, 10, 1),
    Method.DRAFT_MODEL: TreeSize(5, 5, 1),
}
_ON_CPU = {
    Method.EAGLE2: TreeSize(8, 3, 4),
    Method.EAGLE3: TreeSize(8, 3, 4),
    Method.PLD: TreeSize(6, 6, 1),
    Method.DRAFT_MODEL: TreeSize(3, 3, 1),
}
# What trees sized by cost may grow to: on a CPU the cost of rows stops them long before.
_LARGEST_ON_GPU = TreeSize(60, 8, 10)
_LARGEST_ON_CPU = TreeSize(60, 8, 6)


def largest_tree(device: torch.device) -> TreeSize:
    """The bounds of trees that are sized by their cost."""
    return _LARGEST_ON_CPU if device.type == "cpu" else _LARGEST_ON_GPU


def tree_size(given: Mapping[str, int], method: Method, device: torch.device) -> TreeSize:
    """The defaults of method and device, changed where the user said so."""
    from engine import check_tree_size

    tree = {"nodes", "depth", "beam"}
    usable = {Method.NONE: set(), **dict.fromkeys(WITH_HEAD, tree)}.get(method, {"depth"})
    for name in given:
        if name not in usable:
            shape = "drafts nothing" if method is Method.NONE else "drafts a chain, sized by --depth"
            raise UsageError(f"--{name} has no use with --method {method}, which {shape}: leave it out")
    if method is Method.NONE:
        return TreeSize(0, 0, 0)
    size = replace((_ON_CPU if device.type == "cpu" else _ON_GPU)[method], **given)
    if method not in WITH_HEAD:
        return replace(size, nodes=size.depth)
    check_tree_size(size.nodes, size.depth, size.beam)
    return size


def size_of(drafter: Drafter) -> tuple[TreeSize, bool]:
    """How large the drafts are now, and whether each round chooses below that."""
    from engine import DraftModel, Eagle2, PromptLookup

    if isinstance(drafter, Eagle2):
        return TreeSize(drafter.nodes, drafter.depth, drafter.beam), drafter.sizing is not None
    if isinstance(drafter, (PromptLookup, DraftModel)):
        return TreeSize(drafter.depth, drafter.depth, 1), False
    return TreeSize(0, 0, 0), False


def resize_trees(engine: Engine, given: Mapping[str, int], prompt: list[int]) -> None:
    """Have the head draw trees as large as `given`, or sized by their cost where nothing is.

    The head stays; what was learnt of its confidences is learnt anew. Raises UsageError, and changes
    nothing, where there is no head or the sizes do not fit.
    """
    from engine import Calibration, Eagle2, SettingsError

    found = [(name, one) for name, one in engine.drafters.items() if isinstance(one, Eagle2)]
    if not found:
        raise UsageError("nothing here grows a tree: nodes, depth and beam are for a draft head")
    name, old = found[0]
    try:
        device = engine.target.device
        size = tree_size(given, Method(name), device) if given else largest_tree(device)
        drafter = Eagle2(old.head, size.nodes, size.depth, size.beam, Calibration(size.depth))
    except SettingsError as error:
        raise UsageError(str(error)) from None
    engine.drafters[name] = drafter
    if not given:
        size_by_cost(engine, drafter, prompt)


def size_by_cost(engine: Engine, drafter: Drafter, prompt: list[int]) -> None:
    """Have the drafter choose its trees by what forwards cost, which is measured once."""
    from engine import Eagle2, TreeSizing, measure_costs

    assert isinstance(drafter, Eagle2)
    if engine.costs is None:
        engine.reset()
        engine.costs = measure_costs(engine.target, prompt)
    drafter.sizing = TreeSizing(engine.costs, drafter.nodes)
