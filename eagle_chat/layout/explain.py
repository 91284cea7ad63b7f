"""Why a node ended as it did, and what a round gave: sentences made from the round's own numbers."""

from dataclasses import dataclass
from itertools import pairwise
from math import exp

from rich.cells import cell_len

from eagle_chat.layout.draw import draw_of
from eagle_chat.layout.rows import Row, clip, fitting
from eagle_chat.layout.states import (
    NodeState,
    bonus_text,
    by_score,
    confidences,
    marks,
    node_states,
    own_token,
)
from eagle_chat.layout.tokens import fitted
from eagle_chat.phases import EVERYTHING, Sight
from eagle_chat.records import Dropped, RoundRecord

LONGEST = 16  # cells of a token inside a sentence
SHORTEST_PATH = 8  # cells of the accepted text in the sentence about a round
LINES = 2  # of the sentence about a node
RANKS = ("first", "second", "third")


def inspected(
    record: RoundRecord, node: int, width: int, ascii_only: bool = False, sight: Sight = EVERYTHING
) -> list[Row]:
    """A row of numbers about a node, then why it ended as it did, as far as that can be said by now."""
    sentence = "the target has not looked at the tree yet"
    if sight.verdict:
        sentence = explain(record, node, ascii_only)
    elif sight.target:
        sentence = "the target has answered; what it takes comes next"
    lines = wrapped(sentence, width - 1)[:LINES]
    return [
        fitting(_numbers(record, node, ascii_only, sight), width),
        *(clip([(f" {line}", "label")], width, ascii_only) for line in lines),
    ]


def explain(record: RoundRecord, node: int, ascii_only: bool = False) -> str:
    """One sentence: why the node ended as it did. Nodes are numbered as in `layout.cells`."""
    kept = len(record.tree.tokens)
    words = _Words(record, ascii_only)
    if node == own_token(record):
        return words.own()
    if node >= kept:
        return words.dropped(record.tree.dropped[node - kept])
    if node == 0:
        return words.root()
    return words.accepted(node) if node in record.path else words.passed_over(node)


def round_line(record: RoundRecord, width: int, ascii_only: bool = False) -> Row:
    """What the tree was to give and what came of it; nothing where another row says why there is none."""
    if len(record.tree.tokens) == 1 and record.tree.sizing is not None:
        return []
    return clip([(f" {_Words(record, ascii_only).whole_round(width - 1)}", "label")], width, ascii_only)


def chain_line(record: RoundRecord, width: int, ascii_only: bool = False) -> Row:
    """What the drafter's first choices alone would have given, where the tree gave more."""
    tree = record.tree
    children = tree.children()
    firsts = 0
    for parent, node in pairwise(record.path):
        if by_score(tree, children[parent])[0] != node:
            break
        firsts += 1
    count = firsts + 1  # the target's own token comes with any number of drafts
    if count >= len(record.new):
        return []
    text = f"a chain of the drafter's first choices would have got {count} token{'s' * (count != 1)}"
    return clip([(f" {text}, the tree got {len(record.new)}", "label")], width, ascii_only)


def expected_tokens(record: RoundRecord) -> float | None:
    """What the drafter's own values promise: one token, and every kept node's chance to be accepted."""
    values = record.tree.values
    return None if values is None else 1 + sum(exp(value) for value in values[1:])


def missed_draft(record: RoundRecord) -> Dropped | None:
    """The target's own token, where the drafter had drawn it and the rerank did not keep it."""
    if record.bonus is None:
        return None
    wanted = (record.new[record.bonus], record.path[-1])
    return next((each for each in record.tree.dropped if (each.token, each.parent) == wanted), None)


@dataclass(frozen=True, slots=True)
class _Words:
    """The parts of the sentences about one round."""

    record: RoundRecord
    ascii_only: bool

    def root(self) -> str:
        """The node that was not drafted."""
        if self.record.index == 0:
            return "the end of the prompt: the reply begins behind it"
        return "the last token of the text so far: this round begins behind it"

    def accepted(self, node: int) -> str:
        """Drafted, and what the target took."""
        tree = self.record.tree
        parent = tree.parents[node]
        rivals = by_score(tree, tree.children()[parent])
        rank = rivals.index(node)
        after = self._quoted(tree.texts[parent])
        drawn = draw_of(self.record, node)
        took = "what the target took"
        if drawn is not None:
            took += f": its score {drawn.score_text()}, log p + noise, was the highest"
        if tree.is_looked_up(node):
            return f"accepted: looked up, since the text has it after the same words before, and {took}"
        if len(rivals) == 1:
            return f"accepted: the only draft after {after}, and {took}"
        if rank == 0:
            return f"accepted: the drafter's best of {len(rivals)} after {after}, and {took}"
        place = RANKS[rank] if rank < len(RANKS) else f"number {rank + 1}"
        return f"accepted: only the drafter's {place} of {len(rivals)} after {after}, but {took}"

    def passed_over(self, node: int) -> str:
        """Kept, and not on the path: it lost against a sibling, an ancestor did, or nobody asked."""
        tree, path = self.record.tree, self.record.path
        turn = node  # where the way to this node left the path
        while tree.parents[turn] not in path:
            turn = tree.parents[turn]
        fork = tree.parents[turn]
        if self.record.bonus is None and fork == path[-1]:
            return f"not decided: the reply ended at {self._quoted(tree.texts[fork])}, before its turn came"
        if turn == node:
            return f"rejected: {self._choice(fork, node)}"
        above = "its parent" if turn == tree.parents[node] else "above it,"
        lost = self._quoted(tree.texts[turn])
        return f"never reached: {above} {lost} was rejected, {self._choice(fork, None)}"

    def dropped(self, node: Dropped) -> str:
        """Drawn, and not sent to the target."""
        cutoff = self.record.tree.cutoff
        fate = "drawn and expanded, then" if node.expanded else "drawn, never expanded,"
        if cutoff is None or node.value >= cutoff:
            why = f"not kept: {len(self.record.tree.tokens) - 1} others had better values"
        else:
            why = f"not kept: its value {node.value:.2f} is below the cut-off {cutoff:.2f}"
        wanted = "; the target wanted it" if node == missed_draft(self.record) else ""
        return f"{fate} {why}{wanted}"

    def own(self) -> str:
        """The token that ended the round."""
        tree, last = self.record.tree, self.record.path[-1]
        if self.record.index == 0:
            return "the reply's first token: reading the prompt gives it"
        if len(tree.tokens) == 1:
            return "the target's own: nothing was drafted in this round"
        where = self._quoted(tree.texts[last])
        if (missed := missed_draft(self.record)) is not None:
            cutoff = "" if tree.cutoff is None else f" (value {missed.value:.2f}, cut-off {tree.cutoff:.2f})"
            return f"the target's own: drawn after {where}, but not kept{cutoff}"
        count = len(tree.children()[last])
        if count == 0:
            return f"the target's own: the drafts ended at {where}, and one more token comes with every pass"
        if count == 1:
            return f"the target's own: the only draft after {where} was another"
        return f"the target's own: none of the {count} drafts after {where} was it"

    def whole_round(self, width: int) -> str:
        """Expected and got, and how far the drafts held."""
        record, tree = self.record, self.record.tree
        if record.index == 0 or len(tree.tokens) == 1:
            return self.own()
        expected = None if tree.sizing else expected_tokens(record)  # where sized, that row says it better
        count = len(record.new)
        before = f"got {count} token{'s' * (count != 1)}: "
        if expected is not None:
            before = f"expected {expected:.1f} tokens, got {count}: "
        own = self._quoted(bonus_text(record) or b"")
        held = b"".join(record.tree.texts[node] for node in record.path[1:])
        if not held:
            return f"{before}no draft held, the target wanted {own}"
        if record.bonus is None:
            end = " held, then the reply ended"
        elif tree.children()[record.path[-1]]:
            end = f" held, then the target wanted {own}"
        else:
            end = f" held to its end, and {own} came with it"
        room = max(SHORTEST_PATH, width - cell_len(before + end) - 2)
        return f'{before}"{fitted(held, room, self.ascii_only)}"{end}'

    def _choice(self, fork: int, loser: int | None) -> str:
        """What the target took at a node of the path, with both probabilities where known."""
        record, tree = self.record, self.record.tree
        place = record.path.index(fork) + 1
        if place < len(record.path):
            winner = record.path[place]
            took, p = self._quoted(tree.texts[winner]), None if tree.target is None else tree.target[winner]
        else:
            winner = own_token(record)
            took, p = self._quoted(bonus_text(record) or b""), record.bonus_target
        if loser is None:
            return f"the target took {took} instead"
        numbers = ""
        won, lost = draw_of(record, winner), draw_of(record, loser)
        if won is not None and lost is not None:
            numbers = f" (score {won.score_text()} against {lost.score_text()}: log p + noise)"
        elif p is not None and tree.target is not None:
            numbers = f" ({share(p)} against {share(tree.target[loser])})"
        where = "" if place < len(record.path) else ", which is not among the drafts"
        return f"after {self._quoted(tree.texts[fork])} the target took {took} instead{numbers}{where}"

    def _quoted(self, data: bytes) -> str:
        return f'"{fitted(data, LONGEST, self.ascii_only)}"'


def _numbers(record: RoundRecord, node: int, ascii_only: bool, sight: Sight) -> list[Row]:
    """Token, confidence, the target's probability, value, id: in order of importance."""
    tree = record.tree
    kept = len(tree.tokens)
    if node == own_token(record):
        state, data, token = NodeState.BONUS, bonus_text(record) or b"", record.new[-1]
        missed = missed_draft(record)
        confidence, value = (missed.confidence, missed.value) if missed else (None, None)
        target = record.bonus_target
    elif node >= kept:
        dropped = tree.dropped[node - kept]
        state = NodeState.DROPPED if sight.dropped else NodeState.PENDING
        data, token = dropped.text, dropped.token
        confidence, value, target = dropped.confidence, dropped.value, None
    else:
        state, data, token = node_states(record, sight.verdict)[node], tree.texts[node], tree.tokens[node]
        confidence = confidences(tree)[node]
        value = tree.values[node] if tree.values and node else None
        target = tree.target[node] if tree.target and node and sight.target else None
    space = ("_" if ascii_only else "␣") if data.startswith(b" ") and data.strip(b" ") else ""
    name = fitted(data, LONGEST, ascii_only)
    parts: list[Row] = [[(" ", "label"), (f'{marks(ascii_only)[state]}"{space}{name}"', state)]]
    if node and (state != NodeState.BONUS or confidence is not None):
        source = "looked up, chance" if tree.is_looked_up(node) else "confidence"
        parts.append([(f"   {source} ", "label"), (share(confidence), "score")])
    if state == NodeState.DROPPED:
        parts.append([("   the target was not asked", "label")])
    elif node:
        parts.append([("   target ", "label"), (share(target), "score")])
    if sight.verdict and (drawn := draw_of(record, node)) is not None:
        parts.append([("   noise ", "label"), (drawn.noise_text(), "score")])
        parts.append([("   score ", "label"), (drawn.score_text(), "score")])
    if value is not None:
        parts.append([("   value ", "label"), (f"{value:.2f}", "score")])
    return [*parts, [("   id ", "label"), (str(token), "score")]]


def wrapped(text: str, width: int) -> list[str]:
    """Lines of whole words, measured in cells."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def share(probability: float | None) -> str:
    """A probability in words' company: small ones keep a digit that is not zero."""
    if probability is None:
        return "unknown"
    percent = 100 * probability
    return f"{percent:.0f} %" if percent >= 1 else f"{percent:.1f} %" if percent >= 0.1 else "under 0.1 %"
