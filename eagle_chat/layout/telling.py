"""What happens in a phase of a round: its heading, and one sentence made from the round's own numbers."""

from math import exp

from rich.cells import cell_len

from eagle_chat.layout.explain import LONGEST, explain, share, wrapped
from eagle_chat.layout.rows import Row, clip, ruled
from eagle_chat.layout.states import bonus_text, confidences, own_token
from eagle_chat.layout.tokens import fitted
from eagle_chat.phases import Phase, Stage, phases
from eagle_chat.records import RoundRecord

LINES = 2  # of a sentence


def heading(record: RoundRecord, phase: Phase, newest: int | None, width: int, ascii_only: bool) -> Row:
    """`── round 7 of 12 · step 3/7: draft level 3 ──`, or shorter; `newest` where that is a later round."""
    steps = phases(record)
    dot = "-" if ascii_only else "·"
    this = "prefill" if record.index == 0 else f"round {record.index}"
    this += "" if newest is None else f" of {newest}"
    level = f" level {phase.level}" if phase.stage == Stage.DRAFT else ""
    step = f"step {steps.index(phase) + 1}/{len(steps)}: {phase.stage}{level}"
    titles = [f"step by step {dot} {this} {dot} {step}", f"{this} {dot} {step}", step]
    title = next((title for title in titles if cell_len(title) + 4 <= width), titles[-1])
    return ruled(title, width, ascii_only)


def sentence(record: RoundRecord, phase: Phase, ascii_only: bool = False) -> str:
    """What happens in this phase."""
    match phase.stage:
        case Stage.DRAFT:
            return _draft(record, phase.level, ascii_only)
        case Stage.RERANK:
            return _rerank(record)
        case Stage.VERIFY:
            return _verify(record, ascii_only)
        case Stage.ACCEPT:
            return _accept(record, ascii_only)
        case Stage.OWN:
            return _own(record, ascii_only)


def rows(record: RoundRecord, phase: Phase, width: int, ascii_only: bool) -> list[Row]:
    """The sentence in lines of `width` cells."""
    lines = wrapped(sentence(record, phase, ascii_only), width - 1)
    return [clip([(f" {line}", "label")], width, ascii_only) for line in lines[:LINES]]


def _draft(record: RoundRecord, level: int, ascii_only: bool) -> str:
    """How many were expanded and drawn, and the best of them."""
    tree = record.tree
    root = _quoted(tree.texts[0], ascii_only)
    if tree.values is None:
        return f"Draft: {_tokens(len(tree.tokens) - 1)} after {root}, found without probabilities."
    drawn = tree.drawn[level - 1] if level <= len(tree.drawn) else tree.depths().count(level)
    if level == 1:
        begins = f"Level 1: {_tokens(drawn)} drawn after {root}"
    elif expanded := _expanded(record, level):
        begins = f"Level {level}: {expanded} node{'s' * (expanded != 1)} expanded, {drawn} drawn"
    elif _all_looked_up(record, level):
        begins = f"Level {level}: {_tokens(drawn)} looked up in the text"
    else:
        begins = f"Level {level}: {_tokens(drawn)} drawn"
    best = _best(record, level)
    if best is None:
        return f"{begins}; none is good enough to be kept."
    data, confidence, value = best
    whole = f", with its path {share(exp(value))}" if level > 1 else ""
    return f"{begins}; best: {_quoted(data, ascii_only)} {share(confidence)}{whole}."


def _expanded(record: RoundRecord, level: int) -> int | None:
    """Nodes that got children at a level: each gets as many as the root got."""
    drawn = record.tree.drawn
    if level > len(drawn) or not drawn[0] or drawn[level - 1] % drawn[0]:
        return None
    return drawn[level - 1] // drawn[0]


def _all_looked_up(record: RoundRecord, level: int) -> bool:
    """Whether the text gave all nodes of a level, and the drafter none."""
    tree = record.tree
    nodes = [node for node, depth in enumerate(tree.depths()) if depth == level]
    return level > len(tree.drawn) and all(tree.is_looked_up(node) for node in nodes)


def _best(record: RoundRecord, level: int) -> tuple[bytes, float, float] | None:
    """Text, confidence and value of the best candidate of a level; None where none was recorded."""
    tree, depths = record.tree, record.tree.depths()
    assert tree.values is not None
    found = [
        (tree.values[node], tree.texts[node], confidence)
        for node, confidence in enumerate(confidences(tree))
        if depths[node] == level and confidence is not None
    ]
    for each in tree.dropped:
        depths.append(depths[each.parent] + 1)
        if depths[-1] == level:
            found.append((each.value, each.text, each.confidence))
    if not found:
        return None
    value, data, confidence = max(found, key=lambda candidate: candidate[0])
    return data, confidence, value


def _rerank(record: RoundRecord) -> str:
    tree = record.tree
    kept = tree.drafted
    dropped = max(sum(tree.drawn) - kept, len(tree.dropped))
    found = f"; {tree.looked_up} looked up beside them" if tree.looked_up else ""
    last = "" if tree.cutoff is None else f", down to a path of {share(exp(tree.cutoff))}"
    return f"Rerank: the best {kept} of {kept + dropped} go to the target{last}; {dropped} dropped{found}."


def _verify(record: RoundRecord, ascii_only: bool) -> str:
    tree = record.tree
    begins = f"Verify: one pass of the target over {_tokens(len(tree.tokens))}, {record.verify_ms:.1f} ms"
    if tree.target is None:
        return f"{begins}."
    p, first = max((tree.target[node], node) for node in tree.children()[0])
    return f"{begins}; it gives {_quoted(tree.texts[first], ascii_only)} {share(p)}."


def _accept(record: RoundRecord, ascii_only: bool) -> str:
    tree, path = record.tree, record.path
    if len(path) == 1:
        after = _quoted(tree.texts[0], ascii_only)
        return f"Accept: none of the {len(tree.children()[0])} drafts after {after} is what the target takes."
    held = _quoted(b"".join(tree.texts[node] for node in path[1:]), ascii_only)
    end = "" if record.bonus is not None else "; the reply ends there"
    return f"Accept: the target takes {held}, {_tokens(len(path) - 1)} of {max(tree.depths())} levels{end}."


def _own(record: RoundRecord, ascii_only: bool) -> str:
    if len(record.tree.tokens) == 1:
        words = explain(record, own_token(record), ascii_only)
        return f"{words[0].upper()}{words[1:]}."
    own = _quoted(bonus_text(record) or b"", ascii_only)
    p = "" if record.bonus_target is None else f" {share(record.bonus_target)}"
    return f"Bonus: the pass also gives the target's own next token, {own}{p}: {len(record.new)} in all."


def _tokens(count: int) -> str:
    return f"{count} token{'s' * (count != 1)}"


def _quoted(data: bytes, ascii_only: bool) -> str:
    return f'"{fitted(data, LONGEST, ascii_only)}"'
