"""The outline: a tree as indented lines of words, for reading aloud and for terminals that only print.

Every line says its depth and what became of the token; nothing hangs on a glyph, a colour or a column.
"""

from eagle_chat.layout.rows import counted_dropped
from eagle_chat.layout.states import NodeState, bonus_text, by_score, confidences, node_states
from eagle_chat.layout.tokens import token_text
from eagle_chat.records import RoundRecord

INDENT = "  "
SPACES = {" ": "space", "\n": "newline", "\t": "tab"}
WORDS = {
    NodeState.ACCEPTED: "accepted",
    NodeState.REJECTED: "rejected",
    NodeState.UNREACHABLE: "never reached",
    NodeState.PENDING: "not verified yet",
}


def outline(record: RoundRecord, ascii_only: bool = False, verified: bool = True) -> list[str]:
    """What the round gave, then every node below its parent, the drafter's best first."""
    tree = record.tree
    children, states, drafted = tree.children(), node_states(record, verified), confidences(tree)
    end = record.path[-1] if verified and record.bonus is not None else None
    lines = [_sum_up(record, verified)]

    def say(node: int, depth: int) -> None:
        name = f"{INDENT * depth}{depth} {_spoken(tree.texts[node], ascii_only)}"
        if node == 0:
            lines.append(f"{name} root, the last token of the text so far")
        else:
            target = tree.target[node] if tree.target is not None and verified else None
            numbers = _percent("draft", drafted[node]) + _percent("target", target)
            lines.append(f"{name} {WORDS[states[node]]}{numbers}")
        for child in by_score(tree, children[node]):
            say(child, depth + 1)
        if node == end:
            own = _spoken(bonus_text(record) or b"", ascii_only)
            sure = _percent("target", record.bonus_target)
            lines.append(f"{INDENT * (depth + 1)}{depth + 1} {own} the target's own token{sure}")

    say(0, 0)
    dropped = counted_dropped(record)
    return [*lines, dropped] if dropped else lines


def _sum_up(record: RoundRecord, verified: bool) -> str:
    """One sentence about the round."""
    drafted = len(record.tree.tokens) - 1
    if record.index == 0:
        return "prefill: reading the prompt gives the first token"
    if not verified:
        return f"round {record.index}: {drafted} drafted, not verified yet"
    if drafted == 0:
        return f"round {record.index}: nothing drafted, the target's own token"
    own = " and the target's own token" if record.bonus is not None else ", then the reply ended"
    return f"round {record.index}: {drafted} drafted, {record.accepted} accepted{own}"


def _percent(whose: str, probability: float | None) -> str:
    return "" if probability is None else f", {whose} {100 * probability:.0f} %"


def _spoken(data: bytes, ascii_only: bool) -> str:
    """The token in quotes, or the names of what a voice would leave out."""
    text = data.decode("utf-8", "replace")
    if text and not text.strip(" \n\t"):
        return " ".join(SPACES[char] for char in text)
    return f'"{token_text(data, ascii_only)}"'
