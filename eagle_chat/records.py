"""Plain data about decoding: what the engine thread hands to the screen, to traces and to summaries.

No torch here: everything is a Python scalar, bytes or a tuple, so records can be kept, queued, pickled and
written. Words are those of `engine`: a *round* is one target forward; its *draft tree* has the last committed
token as root.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate the drafter drew that did not go to the target.

    `parent` counts through the kept nodes first and then through `TreeRecord.dropped`: below `len(tokens)` it
    is a kept node, from there on it is `dropped[parent - len(tokens)]`.
    """

    token: int
    text: bytes
    parent: int
    confidence: float
    value: float
    expanded: bool  # it was given children before the rerank dropped it


@dataclass(frozen=True, slots=True)
class SizingRecord:
    """Why a tree has its size: what this one, the best of all, was expected to give."""

    expected: float  # tokens committed
    ms: float  # of the whole round
    plain_ms: float  # of a plain round, which commits one token
    why: str = (
        "best"  # of all sizes; or "rest", drafting was slower; or "probe", to see what a plain round takes
    )


@dataclass(frozen=True, slots=True)
class TreeRecord:
    """One round's draft tree as the target saw it. Node 0 is the root; every parent precedes its children."""

    tokens: tuple[int, ...]
    texts: tuple[bytes, ...]  # the bytes each token stands for; may be part of a UTF-8 character
    parents: tuple[int, ...]  # parents[0] == -1
    values: tuple[float, ...] | None = (
        None  # cumulative draft log-probability, root 0.0; None: no probabilities
    )
    target: tuple[float, ...] | None = None  # the target's probability of a node given its parent, root 1.0
    dropped: tuple[Dropped, ...] = ()  # the best of what was drawn and not kept; never all of it
    drawn: tuple[int, ...] = ()  # how many candidates were drawn at depth 1, 2, …
    cutoff: float | None = None  # value of the last node kept where some were not
    sizing: SizingRecord | None = None  # where the size was chosen for this round
    noise: tuple[float | None, ...] | None = None  # at temperature above 0, where the parent was asked
    looked_up: int = 0  # of the last nodes, how many were found in the text and not drafted

    @property
    def drafted(self) -> int:
        """How many nodes the drafter drew: neither the root nor what was found in the text."""
        return len(self.tokens) - 1 - self.looked_up

    def is_looked_up(self, node: int) -> bool:
        """Whether the node was found in the text."""
        return len(self.tokens) - self.looked_up <= node < len(self.tokens)

    def depth(self, node: int) -> int:
        """Edges between the root and `node`."""
        steps = 0
        while (node := self.parents[node]) >= 0:
            steps += 1
        return steps

    def depths(self) -> list[int]:
        """Depth of every node, root 0."""
        depths = [0] * len(self.parents)
        for node, parent in enumerate(self.parents[1:], start=1):
            depths[node] = depths[parent] + 1
        return depths

    def children(self) -> list[list[int]]:
        """Children of every node, in node order."""
        children: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents[1:], start=1):
            children[parent].append(node)
        return children


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """What one round committed.

    Round 0 is the prefill: it commits one token and has a tree of the root alone.
    """

    index: int
    new: tuple[int, ...]  # token ids committed by this round: accepted path, then the bonus, after cutting
    texts: tuple[bytes, ...]  # their bytes
    tree: TreeRecord
    path: tuple[int, ...]  # the root, then the accepted nodes that were committed: len(path) == accepted + 1
    bonus: int | None  # index in `new` of the target's own token; None when the cut removed it
    bonus_target: float | None  # the target's probability of that token, where known
    draft_ms: float  # engine clock
    verify_ms: float
    other_ms: float
    bonus_noise: float | None = None  # at temperature above 0: see `TreeRecord.noise`

    @property
    def accepted(self) -> int:
        """Drafted tokens committed by this round."""
        return len(self.new) - (self.bonus is not None)

    @property
    def ms(self) -> float:
        """Engine time of the whole round, milliseconds."""
        return self.draft_ms + self.verify_ms + self.other_ms


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a server says about its drafts, which it does not show. None: it does not say that."""

    source: str  # whose words these are: vLLM, SGLang, llama.cpp
    tau: float  # tokens per forward of the target
    drafts: int | None = None  # rounds that had a draft
    drafted: int | None = None  # tokens
    accepted: int | None = None  # of those
    by_depth: tuple[float, ...] = ()  # share of drafts that were accepted as far as depth 1, 2, …
    shared: bool = True  # counted by the whole server, for whoever asked while the reply was written
    others: bool = False  # and somebody else did ask
