"""The drafters of a session: that of its method, and all that need nothing but what is there by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from eagle_chat.events import Loading
from eagle_chat.methods import CARDS, HEADS, TREE, Method, Needs, beside
from eagle_chat.options import Options
from eagle_chat.tree_sizes import TreeSize, largest_tree, tree_size
from eagle_chat.weights import WeightsLocation

if TYPE_CHECKING:
    import torch

    from engine import Drafter, Eagle2, HydraHeads, MedusaHeads, PromptLookup, Target
    from engine.drafters.draft_head import DraftHead
    from engine.drafters.shared_llama import SharedLlama

    AnyHead: TypeAlias = DraftHead | MedusaHeads | HydraHeads | SharedLlama


@dataclass(frozen=True)
class Sizes:
    """How large the drafts of a session are, by its method, device, and what the options say."""

    options: Options
    method: Method
    device: torch.device
    by_cost: bool  # where a method can be

    def of(self, method: Method) -> TreeSize:
        """What is given counts for the session's method, and for others of its head that take as much."""
        if self.is_by_cost(method):
            return largest_tree(method, self.device)
        card, own = CARDS[method], CARDS[self.method]
        kin = card.needs in HEADS and card.needs is own.needs and set(card.sizes) <= set(own.sizes)
        kept = TREE if method is self.method else card.sizes if kin else ()
        nodes, depth, beam = (getattr(self.options, name) if name in kept else None for name in TREE)
        return tree_size(replace(self.options, nodes=nodes, depth=depth, beam=beam), method, self.device)

    def is_by_cost(self, method: Method) -> bool:
        """Whether each round's tree is sized."""
        return self.by_cost and CARDS[method].by_cost


def load_drafters(
    options: Options,
    sizes: Sizes,
    target: Target,
    head: WeightsLocation | None,
    network: AnyHead | None,
    progress: Callable[[Loading], None],
) -> dict[str, Drafter]:
    """By method id, all but plain decoding. Drafters of one head share it: they all follow the text."""
    if not target.takes_trees:
        return {}
    drafters: dict[str, Drafter] = {}
    for method in (sizes.method, *beside(sizes.method)):
        size = sizes.of(method)
        if CARDS[method].needs is Needs.DRAFT_MODEL:
            assert head is not None
            drafters[method.value] = _draft_model(options, method, head, target, size, progress)
        elif CARDS[method].needs is not Needs.NOTHING:
            assert network is not None
            drafters[method.value] = drafter_of_head(method, network, size, sizes)
        elif method is Method.PLD:
            drafters[method.value] = _lookup(size)
        elif method is Method.LOOKAHEAD:
            drafters[method.value] = _lookahead(size)
    return drafters


def load_drafter(options: Options, method: Method, network: AnyHead, target: Target) -> Drafter:
    """The drafter of one head alone."""
    sizes = Sizes(options, method, target.device, by_cost=False)
    return drafter_of_head(method, network, sizes.of(method), sizes)


def load_prompt_lookup(device: torch.device) -> PromptLookup:
    """Prompt lookup as large as suits the device."""
    return _lookup(tree_size(Options(), Method.PLD, device))


def drafter_of_head(method: Method, head: AnyHead, size: TreeSize, sizes: Sizes) -> Drafter:
    """One of those that share a head."""
    from engine import PUBLISHED, Ablation, Eagle, Eagle2, Grafted, HydraHeads, MedusaHeads
    from engine.drafters.shared_llama import SharedLlama

    if isinstance(head, SharedLlama):
        return _drafter_of_model(method, head, head.vocabulary, size)
    if isinstance(head, MedusaHeads | HydraHeads):
        return _heads(head, size)
    ablations = {
        Method.EAGLE2_NO_VALUE: Ablation(value=False),
        Method.EAGLE2_NO_RERANK: Ablation(rerank=False),
        Method.EAGLE2_BARE: Ablation(value=False, rerank=False),
    }
    if method in ablations:
        return Eagle2(head, size.nodes, size.depth, size.beam, ablation=ablations[method])
    if method is Method.EAGLE:
        return Eagle(head, tuple(path for path in PUBLISHED if len(path) <= size.depth))
    if method is Method.EAGLE2_PLD:
        return Grafted(_eagle2(head, size), _lookup(largest_tree(Method.PLD, sizes.device)))
    return _eagle2(head, size)


def _heads(head: MedusaHeads | HydraHeads, size: TreeSize) -> Drafter:
    """The tree has as many depths as there are heads, at most."""
    from engine import Hydra, Medusa, MedusaHeads, medusa_tree

    paths = medusa_tree(size.nodes, min(size.depth, len(head.heads)))
    return Medusa(head, paths) if isinstance(head, MedusaHeads) else Hydra(head, paths)


def _eagle2(head: DraftHead, size: TreeSize) -> Eagle2:
    from engine import Calibration, Eagle2

    return Eagle2(head, size.nodes, size.depth, size.beam, Calibration(size.depth))


def _lookup(size: TreeSize) -> PromptLookup:
    from engine import PromptLookup

    return PromptLookup(size.depth, candidates=size.beam, nodes=size.nodes)


def _lookahead(size: TreeSize) -> Drafter:
    from engine import Lookahead

    return Lookahead(window=size.beam, ngram=size.depth + 1, candidates=size.beam)


def _draft_model(
    options: Options,
    method: Method,
    location: WeightsLocation,
    target: Target,
    size: TreeSize,
    progress: Callable[[Loading], None],
) -> Drafter:
    """Of a causal LM, or of layers that share the target's embedding."""
    from engine import load_draft_head, load_model, make_target, shares_embedding

    progress(Loading(f"loading {location.name}"))
    if shares_embedding(location.folder):
        layers = load_draft_head(location.folder, target, options.model)
        return _drafter_of_model(method, cast("SharedLlama", layers), target.vocabulary, size)
    model = load_model(location.folder, target.model.dtype, target.device)
    return _drafter_of_model(method, make_target(model, options.target.value), target.vocabulary, size)


def _drafter_of_model(
    method: Method, small: Target | SharedLlama, vocabulary: int, size: TreeSize
) -> Drafter:
    from engine import DraftModel, SampledDraftModel

    kind = SampledDraftModel if method is Method.DRAFT_MODEL_SAMPLED else DraftModel
    return kind(small, vocabulary, size.depth)
