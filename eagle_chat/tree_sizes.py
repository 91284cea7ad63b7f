"""How large a draft tree is: as published with its head, by device, or as the user said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eagle_chat.catalogue import entry_for
from eagle_chat.errors import UsageError
from eagle_chat.options import WITH_HEAD, Method, Options

if TYPE_CHECKING:
    import torch


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
# What trees sized by cost may grow to: on a CPU the cost of rows stops them long before.
_LARGEST_ON_GPU = TreeSize(60, 8, 10)
_LARGEST_ON_CPU = TreeSize(60, 8, 6)
_ON_CPU = {
    Method.EAGLE2: TreeSize(8, 3, 4),
    Method.EAGLE3: TreeSize(8, 3, 4),
    Method.PLD: TreeSize(6, 6, 1),
    Method.DRAFT_MODEL: TreeSize(3, 3, 1),
}


def largest_tree(device: torch.device) -> TreeSize:
    """The bounds of trees that are sized by their cost."""
    return _LARGEST_ON_CPU if device.type == "cpu" else _LARGEST_ON_GPU


def tree_size(given: Mapping[str, int], model: str | None, method: Method, device: torch.device) -> TreeSize:
    """The defaults of target, method and device, changed where the user said so."""
    from engine import check_tree_size

    tree = {"nodes", "depth", "beam"}
    usable = {Method.NONE: set(), **dict.fromkeys(WITH_HEAD, tree)}.get(method, {"depth"})
    for name in given:
        if name not in usable:
            shape = "drafts nothing" if method is Method.NONE else "drafts a chain, sized by --depth"
            raise UsageError(f"--{name} has no use with --method {method}, which {shape}: leave it out")
    if method is Method.NONE:
        return TreeSize(0, 0, 0)
    size = _ON_CPU[method] if device.type == "cpu" else _on_gpu(model, method)
    size = replace(size, **given)
    if method not in WITH_HEAD:
        return replace(size, nodes=size.depth)
    check_tree_size(size.nodes, size.depth, size.beam)
    return size


def given_size(options: Options) -> dict[str, int]:
    """What the options say of the tree."""
    sizes = {name: getattr(options, name) for name in ("nodes", "depth", "beam")}
    return {name: size for name, size in sizes.items() if size is not None}


def _on_gpu(model: str | None, method: Method) -> TreeSize:
    known = entry_for(model) if model else None
    published = known.trees.get(method.value) if known is not None else None
    return TreeSize(*published) if published else _ON_GPU[method]
