"""Which rounds of a trace are worth a stop, each with the one sentence that says why.

A round is notable when every level of a tree of at least `LONG` was accepted, when a path of at least `PATH`
was accepted that leaves the drafter's first choices, when nothing was accepted though the drafter was sure,
and when drafting begins to rest. Everything is read from the round and the one before it.
"""

from itertools import pairwise

from eagle_chat.layout.states import bonus_text, by_score, confidences, percent
from eagle_chat.layout.tokens import fitted
from eagle_chat.records import RoundRecord

LONG = 3  # levels from which a tree that was accepted to the bottom is worth a look
PATH = 2  # accepted tokens from which it matters that the tree held more than first choices
SURE = 0.5  # confidence from which a miss is
TOKEN = 16  # cells for a token's text


def why_notable(record: RoundRecord, before: RoundRecord | None = None) -> str | None:
    """The sentence, or None for a round like any other; `before` is the round before it."""
    if record.index == 0:
        return None
    if len(record.tree.tokens) == 1:
        return _rest(record, before)
    if not record.accepted:
        return _miss(record)
    deepest = max(record.tree.depths())
    if record.accepted == deepest and deepest >= LONG:
        return f"all {deepest} levels accepted: {len(record.new)} tokens for one forward pass"
    return _other_choice(record) if record.accepted >= PATH else None


def _rest(record: RoundRecord, before: RoundRecord | None) -> str | None:
    sizing = record.tree.sizing
    rests = sizing is not None and sizing.why == "rest"
    begins = before is None or before.tree.sizing is None or before.tree.sizing.why == "best"
    return "drafting rests from here on: it was slower than plain decoding" if rests and begins else None


def _miss(record: RoundRecord) -> str | None:
    first = by_score(record.tree, record.tree.children()[0])[0]
    confidence = confidences(record.tree)[first]
    own = bonus_text(record)
    if confidence is None or confidence < SURE or own is None:
        return None
    drafted = _quoted(record.tree.texts[first])
    return f"a miss: the drafter was {percent(confidence)} % sure of {drafted}, the model says {_quoted(own)}"


def _other_choice(record: RoundRecord) -> str | None:
    """The first step of the accepted path that was not the drafter's first choice."""
    children = record.tree.children()
    for depth, (parent, node) in enumerate(pairwise(record.path), start=1):
        rank = by_score(record.tree, children[parent]).index(node) + 1
        if rank > 1:
            token = _quoted(record.tree.texts[node])
            return f"the model took the drafter's no. {rank}, {token}, at depth {depth}: a chain ends there"
    return None


def _quoted(data: bytes) -> str:
    return f"‘{fitted(data, TOKEN).rstrip()}’"
