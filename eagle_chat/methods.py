"""Every method in one table: what it needs, how it is sized, and a card for whoever has to choose."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from eagle_chat.errors import UsageError


class Method(StrEnum):
    """Method ids of the contract; of several that are wanted the first here that needs weights is loaded."""

    NONE = "none"
    EAGLE2 = "eagle2"
    EAGLE3 = "eagle3"
    EAGLE2_PLD = "eagle2+pld"
    EAGLE = "eagle"
    EAGLE2_NO_VALUE = "eagle2-no-value"
    EAGLE2_NO_RERANK = "eagle2-no-rerank"
    EAGLE2_BARE = "eagle2-bare"
    MEDUSA = "medusa"
    HYDRA = "hydra"
    PLD = "pld"
    LOOKAHEAD = "lookahead"
    DRAFT_MODEL = "draft-model"
    DRAFT_MODEL_SAMPLED = "draft-model-sampled"


class HeadKind(StrEnum):
    """Methods whose heads can be trained."""

    EAGLE2 = "eagle2"
    EAGLE3 = "eagle3"
    MEDUSA = "medusa"
    HYDRA = "hydra"
    DRAFT_MODEL = "draft-model"


class Needs(StrEnum):
    """Weights beside the target's. A session has those of one kind, and every method that needs no others."""

    NOTHING = "nothing"
    EAGLE2_HEAD = "eagle2"  # as the catalogue has it under heads; EAGLE-1's is the same
    EAGLE3_HEAD = "eagle3"
    MEDUSA_HEADS = "medusa"
    HYDRA_HEADS = "hydra"
    DRAFT_MODEL = "draft-model"


HEADS = (Needs.EAGLE2_HEAD, Needs.EAGLE3_HEAD, Needs.MEDUSA_HEADS, Needs.HYDRA_HEADS)
TREE = ("nodes", "depth", "beam")


@dataclass(frozen=True)
class Card:
    """What there is to know of a method before choosing it."""

    proposes: str  # short enough for a completion
    costs: str
    wins: str
    paper: str
    needs: Needs = Needs.NOTHING
    sizes: tuple[str, ...] = ()  # those of `TREE` that it takes
    shape: str = "grows a tree"  # said to who gives another
    by_cost: bool = False  # each round's tree can be sized by what its rows cost
    seed_equal: bool = True  # the same text as plain decoding by the same seed

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.proposes}; costs {self.costs}; wins {self.wins} ({self.paper})"


_EAGLE2 = "Li et al., EMNLP 2024"
_SPECULATIVE = "Leviathan et al.; Chen et al., 2023"
CARDS = {
    Method.NONE: Card(
        "nothing: plain decoding",
        "nothing",
        "where drafting does not pay",
        "the baseline",
        shape="drafts nothing",
    ),
    Method.EAGLE2: Card(
        "a tree that a head grows where it is confident",
        "a small layer for each level, and the tree's rows",
        "nearly everywhere a head is known",
        _EAGLE2,
        Needs.EAGLE2_HEAD,
        TREE,
        by_cost=True,
    ),
    Method.EAGLE3: Card(
        "EAGLE-2's tree, by a head that reads three layers",
        "a small layer for each level, and the tree's rows",
        "with heads that saw much text",
        "Li et al., NeurIPS 2025",
        Needs.EAGLE3_HEAD,
        TREE,
        by_cost=True,
    ),
    Method.EAGLE2_PLD: Card(
        "EAGLE-2's tree, and what followed the words before",
        "as EAGLE-2, and rows for what is looked up where that pays",
        "where texts are copied: summaries, programs, second drafts",
        f"{_EAGLE2}; Saxena, 2023",
        Needs.EAGLE2_HEAD,
        TREE,
        by_cost=True,
    ),
    Method.EAGLE: Card(
        "the head's best, in a tree of always one shape",
        "five small layers and 25 rows",
        "over chains; EAGLE-2 has a better tree for less",
        "Li et al., ICML 2024",
        Needs.EAGLE2_HEAD,
        ("depth",),
        "fills a fixed tree, cut at --depth",
    ),
    Method.EAGLE2_NO_VALUE: Card(
        "EAGLE-2, ranked by each node's own confidence",
        "as EAGLE-2",
        "nothing: it shows what the value brings",
        f"{_EAGLE2}, ablation",
        Needs.EAGLE2_HEAD,
        TREE,
    ),
    Method.EAGLE2_NO_RERANK: Card(
        "EAGLE-2, of no other nodes than the expanded",
        "as EAGLE-2",
        "nothing: it shows what the rerank brings",
        f"{_EAGLE2}, ablation",
        Needs.EAGLE2_HEAD,
        TREE,
    ),
    Method.EAGLE2_BARE: Card(
        "EAGLE-2 with neither value nor rerank",
        "as EAGLE-2",
        "nothing: it shows what both bring",
        f"{_EAGLE2}, ablation",
        Needs.EAGLE2_HEAD,
        TREE,
    ),
    Method.MEDUSA: Card(
        "a fixed tree, by heads that each guess one place",
        "a matrix or two for each depth, and the tree's rows",
        "where drafting itself has to cost next to nothing",
        "Cai et al., ICML 2024",
        Needs.MEDUSA_HEADS,
        ("nodes", "depth"),
        "fills a fixed tree, cut by --nodes and --depth",
    ),
    Method.HYDRA: Card(
        "Medusa's tree, by heads that read the drafted path",
        "a few matrices for each depth, and the tree's rows",
        "over Medusa, at little more",
        "Ankner et al., COLM 2024",
        Needs.HYDRA_HEADS,
        ("nodes", "depth"),
        "fills a fixed tree, cut by --nodes and --depth",
    ),
    Method.PLD: Card(
        "what followed the last words before",
        "rows alone",
        "where texts are copied, and nothing is to be downloaded",
        "Saxena, 2023",
        sizes=TREE,
        by_cost=True,
    ),
    Method.LOOKAHEAD: Card(
        "n-grams the target wrote itself, guessing ahead",
        "many rows: those of the guesses, and of the n-grams",
        "on a GPU with compute to spare, and nothing to be downloaded",
        "Fu et al., ICML 2024",
        sizes=("depth", "beam"),
        shape="has n-grams, sized by --depth, in a window, sized by --beam",
    ),
    Method.DRAFT_MODEL: Card(
        "what a small model of the family would say",
        "a forward of the small model for each token",
        "with a target many times as large",
        _SPECULATIVE,
        Needs.DRAFT_MODEL,
        ("depth",),
        "drafts a chain, sized by --depth",
    ),
    Method.DRAFT_MODEL_SAMPLED: Card(
        "tokens drawn from a small model, as in textbooks",
        "a forward of the small model for each token",
        "nothing over draft-model: it is the textbook's, equal in distribution but not token by token",
        _SPECULATIVE,
        Needs.DRAFT_MODEL,
        ("depth",),
        "drafts a chain, sized by --depth",
        seed_equal=False,
    ),
}
"""By method id, in order."""


def needing(needs: Needs) -> tuple[Method, ...]:
    """The methods that need these weights and no others."""
    return tuple(method for method, card in CARDS.items() if card.needs is needs)


ALWAYS_THERE = needing(Needs.NOTHING)
NOT_SEED_EQUAL = tuple(method for method, card in CARDS.items() if not card.seed_equal)


def fastest(method: Method) -> Method:
    """What was measured to be fastest with a head where trees are sized: what does not pay is left out."""
    return Method.EAGLE2_PLD if method is Method.EAGLE2 else method


def are_sized(method: Method) -> bool:
    """Whether a session that is loaded for this method has trees that can be sized by their cost."""
    return CARDS[method].by_cost or CARDS[method].needs in HEADS


def beside(method: Method) -> list[Method]:
    """The other methods that a session has which was loaded for this one."""
    needs = CARDS[method].needs
    kin = needing(needs) if needs in HEADS else ()
    return [other for other in (*kin, *ALWAYS_THERE) if other is not method]


def to_load(names: Collection[str], more: Collection[str] = ()) -> Method:
    """The method to load so that all of `names` are there, but for `more`, which can be loaded later.

    Raises UsageError where one load is not enough.
    """
    wanted = [method for method in Method if method in names]
    ranked = sorted(wanted, key=lambda method: (CARDS[method].needs is Needs.NOTHING, method is Method.NONE))
    if not ranked:
        return Method.NONE
    missing = [method for method in ranked[1:] if method not in (*beside(ranked[0]), *more)]
    if missing:
        raise UsageError(
            f"{ranked[0]} and {missing[0]} need weights of their own, and --head names one: leave one out"
        )
    return ranked[0]
