"""How large drafts are now, and changes on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from eagle_chat.errors import UsageError
from eagle_chat.loading_drafters import Sizes, drafter_of_head
from eagle_chat.methods import CARDS, Method, Needs
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


def resize_trees(
    engine: Engine, given: Mapping[str, int], model: str, prompt: list[int], asked: Method | None
) -> None:
    """Have the heads draw trees as large as `given`, or sized by their cost where nothing is.

    The heads stay; what was learnt of their confidences is learnt anew. Raises UsageError, and changes
    nothing, where there is no head or the sizes do not fit that of the method `asked` about. Another head
    that cannot have them keeps its trees.
    """
    from engine import SettingsError

    heads = _heads(engine)
    if not heads:
        raise UsageError("nothing here grows a tree: nodes, depth and beam are for a draft head")
    own = next((head for head in heads if asked in head), next(iter(heads))) if asked else ()
    options = replace(Options(model=model), **given)  # type: ignore[arg-type]
    made: dict[str, Drafter] = {}
    for methods, head in heads.items():
        sizes = Sizes(options, methods[0], engine.target.device, by_cost=not given)
        try:
            made |= {each.value: drafter_of_head(each, head, sizes.of(each), sizes) for each in methods}
        except (SettingsError, UsageError) as error:
            if methods == own:
                raise UsageError(str(error)) from None
    engine.drafters.update(made)
    if not given:
        size_by_cost(engine, prompt)


def _heads(engine: Engine) -> dict[tuple[Method, ...], AnyHead]:
    """Those that trees grow from, by the methods that share each."""
    from engine import Eagle, Eagle2, Grafted, Hydra, Medusa

    heads: dict[Needs, AnyHead] = {}
    methods: dict[Needs, list[Method]] = {}
    for name, drafter in engine.drafters.items():
        grown = drafter.eagle if isinstance(drafter, Grafted) else drafter
        if isinstance(grown, Eagle | Eagle2 | Medusa | Hydra):
            needs = CARDS[Method(name)].needs
            heads[needs] = grown.head
            methods.setdefault(needs, []).append(Method(name))
    return {tuple(methods[needs]): head for needs, head in heads.items()}
