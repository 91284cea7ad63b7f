"""How large drafts are now, and changes on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from eagle_chat.errors import UsageError
from eagle_chat.options import Method
from eagle_chat.tree_sizes import TreeSize, largest_tree, tree_size

if TYPE_CHECKING:
    from engine import Drafter, Engine


def size_of(drafter: Drafter) -> tuple[TreeSize, bool]:
    """How large the drafts are now, and whether each round chooses below that."""
    from engine import DraftModel, Eagle2, PromptLookup

    if isinstance(drafter, Eagle2):
        return TreeSize(drafter.nodes, drafter.depth, drafter.beam), drafter.sizing is not None
    if isinstance(drafter, (PromptLookup, DraftModel)):
        return TreeSize(drafter.depth, drafter.depth, 1), False
    return TreeSize(0, 0, 0), False


def resize_trees(engine: Engine, given: Mapping[str, int], model: str, prompt: list[int]) -> None:
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
        size = tree_size(given, model, Method(name), device) if given else largest_tree(device)
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
