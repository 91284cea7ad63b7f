"""What a step of the tour may say: facts of one round, its reply and one of its nodes, as short texts."""

from __future__ import annotations

from math import exp
from statistics import mean

from eagle_chat.layout.states import bonus_text, by_score, confidences, own_token
from eagle_chat.layout.tokens import fitted
from eagle_chat.records import Dropped, RoundRecord
from eagle_chat.replaying import Replay

LONGEST = 16  # cells of a token
NO_BREAK = "\N{NO-BREAK SPACE}"


def facts(
    replay: Replay, number: int, node: int | None = None, against: Replay | None = None
) -> dict[str, str]:
    """By the names that the lesson's texts use. `against` is a plain run of the same prompt."""
    record = replay.trace.rounds[number].record
    found = _of_round(record) | _of_reply(replay)
    if against is not None:
        found |= _compared(replay, against, record)
    if node is not None:
        found |= _of_node(record, node)
    return found


def _of_round(record: RoundRecord) -> dict[str, str]:
    tree = record.tree
    own = bonus_text(record)
    found = {
        "rows": len(tree.tokens),
        "kept": len(tree.tokens) - 1,
        "drawn": sum(tree.drawn),
        "accepted": record.accepted,
        "tokens": len(record.new),
        "draft_time": round(record.draft_ms),
        "verify": round(record.verify_ms),
        "total": round(record.ms),
    }
    words = {"root": _quoted(tree.texts[0])}
    words |= {"cutoff": percent(exp(tree.cutoff))} if tree.cutoff is not None else {}
    words |= {"bonus": _quoted(own)} if own is not None else {}
    return {name: str(number) for name, number in found.items()} | words


def _of_reply(replay: Replay) -> dict[str, str]:
    end = replay.frame(replay.rounds).statistics
    speed, tau = end.tokens_per_second, end.tau
    return {
        "run_tokens": str(end.new_tokens),
        "run_rounds": str(end.rounds),
        "speed": "–" if speed is None else f"{speed:.1f}",
        "tau": "–" if tau is None else f"{tau:.2f}",
    }


def _compared(replay: Replay, plain: Replay, record: RoundRecord) -> dict[str, str]:
    own, other = replay.frame(replay.rounds).statistics, plain.frame(plain.rounds).statistics
    one, two = (
        [token for done in each.trace.rounds for token in done.record.new] for each in (replay, plain)
    )
    verify = mean(done.record.verify_ms for done in plain.trace.rounds[1:])
    speed, plain_speed = own.tokens_per_second or 0.0, other.tokens_per_second or 1.0
    return {
        "plain_verify": f"{verify:.0f}",
        "one_by_one": f"{verify * len(record.tree.tokens):.0f}",
        "plain_rounds": str(other.rounds),
        "plain_speed": f"{plain_speed:.1f}",
        "ratio": f"{speed / plain_speed:.2f}",
        "same": str(sum(pair[0] == pair[1] for pair in zip(one, two, strict=False))),
    }


def _of_node(record: RoundRecord, node: int) -> dict[str, str]:
    tree = record.tree
    if node == own_token(record):
        return {"token": _quoted(bonus_text(record) or b"")}
    if node >= len(tree.tokens):
        return _of_dropped(tree.dropped[node - len(tree.tokens)])
    draft = confidences(tree)
    parent = tree.parents[node]
    rivals = by_score(tree, tree.children()[parent])
    way = [node]
    while tree.parents[way[0]] > 0:
        way.insert(0, tree.parents[way[0]])
    found = {
        "token": _quoted(tree.texts[node]),
        "parent": _quoted(tree.texts[parent]),
        "draft": percent(draft[node]),
        "rivals": str(len(rivals)),
        "first": _quoted(tree.texts[rivals[0]]),
        "first_draft": percent(draft[rivals[0]]),
        "depth": str(len(way) - 1),
        "before": str(len(way) - 1),
        "product": " × ".join(percent(draft[each]) for each in way),
    }
    found |= {"value": percent(exp(tree.values[node]))} if tree.values is not None else {}
    if tree.target is not None:
        best = max(rivals, key=tree.target.__getitem__)
        found |= {
            "target": percent(tree.target[node]),
            "first_target": percent(tree.target[rivals[0]]),
            "second": _quoted(tree.texts[best]),
            "second_target": percent(tree.target[best]),
        }
    return found


def _of_dropped(node: Dropped) -> dict[str, str]:
    return {
        "token": _quoted(node.text),
        "draft": percent(node.confidence),
        "value": percent(exp(node.value)),
    }


def percent(probability: float | None) -> str:
    """`19 %`, never on two lines; small ones keep a digit that is not zero."""
    if probability is None:
        return "unknown"
    number = 100 * probability
    digits = f"{number:.0f}" if number >= 10 else f"{number:.1f}"
    return f"{'over 99' if number > 99 else digits if number >= 0.1 else 'under 0.1'}{NO_BREAK}%"


def _quoted(data: bytes) -> str:
    return f"‘{fitted(data, LONGEST).rstrip()}’"
