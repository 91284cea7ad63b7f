"""How large drafts are now, and changes on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from eagle_chat.errors import UsageError
from eagle_chat.loading_drafters import Sizes, drafter_of_head
from eagle_chat.methods import CARDS, HEADS, Method
from eagle_chat.options import Options
from eagle_chat.tree_sizes import TreeSize, lookahead_size, size_by_cost

if TYPE_CHECKING:
    from eagle_chat.loading_drafters import AnyHead
    from engine import Drafter, Engine


def size_of(drafter: Drafter) -> tuple[TreeSize, bool]:
    """How large the drafts are now, and whether each round chooses below that."""
    from engine import DraftModel, Eagle, Eagle2, Grafted, Hydra, Lookahead, Medusa, PromptLookup

    size, sized = TreeSize(0, 0, 0), False
    match drafter:
        case Grafted():
            size, sized = size_of(drafter.eagle)
        case Eagle2():
            size, sized = TreeSize(drafter.nodes, drafter.depth, drafter.beam), drafter.sizing is not None
        case Eagle() | Medusa() | Hydra():
            widest = 1 + max(rank for path in drafter.paths for rank in path)
            size = TreeSize(len(drafter.paths), len(drafter.paths[-1]), widest)
        case PromptLookup():
            size = TreeSize(drafter.nodes, drafter.depth, drafter.candidates)
            sized = drafter.costs is not None
        case DraftModel():
            size = TreeSize(drafter.depth, drafter.depth, 1)
        case Lookahead():
            size = lookahead_size(drafter.ngram - 1, drafter.window)
    return size, sized


def resize_trees(engine: Engine, given: Mapping[str, int], model: str, prompt: list[int]) -> None:
    """Have the head draw trees as large as `given`, or sized by their cost where nothing is.

    The head stays; what was learnt of its confidences is learnt anew. Raises UsageError, and changes
    nothing, where there is no head or the sizes do not fit.
    """
    from engine import Eagle, Eagle2, Grafted, Hydra, Medusa, SettingsError

    heads: dict[Method, AnyHead] = {}
    for name, drafter in engine.drafters.items():
        grown = drafter.eagle if isinstance(drafter, Grafted) else drafter
        if isinstance(grown, Eagle | Eagle2 | Medusa | Hydra):
            heads[Method(name)] = grown.head
    if not heads:
        raise UsageError("nothing here grows a tree: nodes, depth and beam are for a draft head")
    method = next(method for method in heads if CARDS[method].needs in HEADS)
    options = replace(Options(model=model), **given)  # type: ignore[arg-type]
    sizes = Sizes(options, method, engine.target.device, by_cost=not given)
    try:
        made = {
            name.value: drafter_of_head(name, head, sizes.of(name), sizes) for name, head in heads.items()
        }
    except SettingsError as error:
        raise UsageError(str(error)) from None
    engine.drafters.update(made)
    if not given:
        size_by_cost(engine, prompt)
