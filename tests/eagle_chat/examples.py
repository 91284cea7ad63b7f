"""Deterministic example rounds for tests and demonstrations: small, published size, random."""

import math
import random

from eagle_chat.records import Dropped, RoundRecord, TreeRecord


def example_round(index: int = 7, accepted: int = 3) -> RoundRecord:
    """Eight drafted nodes, 36 drawn; the target takes the drafter's second choice at depth 2."""
    nodes = [  # text, parent, confidence, target
        (" because", -1, 1.0, 1.0),
        (" of", 0, 0.62, 0.71),
        (" the", 0, 0.21, 0.12),
        (" a", 1, 0.48, 0.30),
        (" the", 1, 0.35, 0.52),
        (" way", 2, 0.55, 0.40),
        (" scattering", 4, 0.51, 0.64),
        (" atmosphere", 4, 0.22, 0.11),
        (" process", 3, 0.60, 0.81),
    ]
    dropped = (
        Dropped(9001, b" it", 0, 0.05, math.log(0.05), False),
        Dropped(9002, b" in", 6, 0.40, math.log(0.62 * 0.35 * 0.51 * 0.40), True),
        Dropped(9003, b" light", 9 + 1, 0.70, math.log(0.62 * 0.35 * 0.51 * 0.40 * 0.70), False),
    )
    tree = _tree(nodes, dropped=dropped, drawn=(4, 16, 16))
    return verdict(index, tree, (0, 1, 4, 6)[: accepted + 1], b" of", 0.66)


def example_prefill() -> RoundRecord:
    """The prefill: a tree of the root alone and the target's first token."""
    tree = TreeRecord((198,), (b"\n",), (-1,), (0.0,), (1.0,))
    return RoundRecord(0, (504,), (b"The",), tree, (0,), 0, 0.83, 0.0, 210.0, 2.0)


def example_plain(index: int = 3) -> RoundRecord:
    """A round of plain decoding: nothing drafted, one token."""
    tree = TreeRecord((504,), (b" sky",), (-1,))
    return RoundRecord(index, (314,), (b" is",), tree, (0,), 0, None, 0.0, 30.1, 0.4)


def example_round_60(index: int = 4) -> RoundRecord:
    """Sixty drafted nodes of depth 6 out of 510 drawn, as published for 7B models."""
    return random_round(60, seed=11, depth=6, beam=10, index=index)


def random_round(nodes: int, seed: int, depth: int = 6, beam: int = 10, index: int = 5) -> RoundRecord:
    """A tree grown and reranked as EAGLE-2 does it, from a seeded generator, with a random verdict."""
    rng = random.Random(seed)
    grown = _grow(rng, depth, beam)
    best = sorted(range(1, len(grown)), key=lambda i: (-grown[i][2], i))
    kept = [0, *sorted(best[:nodes])]
    number = {old: new for new, old in enumerate(kept)}
    rows = []
    for old in kept:
        text, parent, value, _ = grown[old]
        confidence = math.exp(value - grown[parent][2]) if parent >= 0 else 1.0
        rows.append((text, number.get(parent, -1), confidence, rng.random()))
    expanded = [i for i in best[nodes:] if grown[i][3]][:6]
    dropped: list[Dropped] = []
    for old in expanded:
        text, parent, value, _ = grown[old]
        if parent in number:
            confidence = math.exp(value - grown[parent][2])
            dropped.append(Dropped(old, text.encode(), number[parent], confidence, value, True))
    tree = _tree(rows, tuple(dropped), (beam, *[beam * beam] * (depth - 1)))
    return verdict(index, tree, random_path(tree, rng), b" target", rng.random())


def random_path(tree: TreeRecord, rng: random.Random) -> tuple[int, ...]:
    """A walk from the root that stops at random."""
    children, path = tree.children(), [0]
    while children[path[-1]] and rng.random() < 0.75:
        path.append(rng.choice(children[path[-1]]))
    return tuple(path)


def verdict(
    index: int, tree: TreeRecord, path: tuple[int, ...], bonus: bytes | None, target: float | None = None
) -> RoundRecord:
    """The round in which the target took `path` of `tree` and then `bonus`."""
    new = tuple(tree.tokens[node] for node in path[1:])
    texts = tuple(tree.texts[node] for node in path[1:])
    if bonus is None:
        return RoundRecord(index, new, texts, tree, path, None, None, 9.1, 24.6, 1.3)
    return RoundRecord(index, (*new, 99), (*texts, bonus), tree, path, len(new), target, 9.1, 24.6, 1.3)


_WORDS = (
    " is| it|,| the| of| process| called| Ray|leigh| scattering| light| molecules|\n| a| in| [bold]|ed|\t| "
    "| 中文| 天空| 😀|é| שלום|\x07| atmosphere| where| which|'s| and| refract| absorb|."
)


def _grow(rng: random.Random, depth: int, beam: int) -> list[tuple[str, int, float, bool]]:
    """[text, parent, value, expanded] of everything drawn."""
    grown = [(" blue", -1, 0.0, True)]
    words = _WORDS.split("|")
    frontier = [0]
    for _ in range(depth):
        level = []
        for parent in frontier:
            left = 1.0
            for _ in range(beam):
                share = left * rng.uniform(0.25, 0.75)
                left -= share
                level.append(len(grown))
                grown.append((rng.choice(words), parent, grown[parent][2] + math.log(share), False))
        frontier = sorted(level, key=lambda i: (-grown[i][2], i))[:beam]
        for i in frontier:
            grown[i] = (*grown[i][:3], True)
    return grown


def _tree(
    nodes: list[tuple[str, int, float, float]], dropped: tuple[Dropped, ...], drawn: tuple[int, ...]
) -> TreeRecord:
    values: list[float] = []
    for _, parent, confidence, _ in nodes:
        values.append(values[parent] + math.log(confidence) if parent >= 0 else 0.0)
    return TreeRecord(
        tokens=tuple(100 + i for i in range(len(nodes))),
        texts=tuple(text.encode() for text, *_ in nodes),
        parents=tuple(parent for _, parent, *_ in nodes),
        values=tuple(values),
        target=tuple(target for *_, target in nodes),
        dropped=dropped,
        drawn=drawn,
        cutoff=min(values),
    )
