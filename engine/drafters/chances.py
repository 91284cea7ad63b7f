"""How often the text went on as looked up: counted in every round, which costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from engine.costs import Costs

MEMORY = 0.98  # of what was counted, from match to match
PRIOR = 3.0  # matches that must be seen before they outweigh the guess
GUESS = 0.5  # that a looked-up token is right


@dataclass(frozen=True)
class Match:
    """Where the end of the text was before, and what followed."""

    words: list[int]  # the n-gram that both have
    tokens: list[int]  # what followed it
    rank: int = 0  # matches that come before it


class Chances:
    """By the length of the match, its rank, and whether the text already had gone on as it says."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int, bool], tuple[float, float]] = {}  # right, and all

    def of(self, match: Match) -> list[float]:
        """Of each token of the match, that the text has it and all before it."""
        first, later = (self._share((len(match.words), match.rank, went_on)) for went_on in (False, True))
        return [first * later**i for i in range(len(match.tokens))]

    def learn(self, match: Match, tokens: list[int]) -> None:
        """After the match's words the text went on with `tokens`."""
        for i, (guess, token) in enumerate(zip(match.tokens, tokens, strict=False)):
            key = len(match.words), match.rank, i > 0
            right, seen = self._counts.get(key, (0.0, 0.0))
            self._counts[key] = MEMORY * right + (guess == token), MEMORY * seen + 1
            if guess != token:
                return

    def _share(self, key: tuple[int, int, bool]) -> float:
        right, seen = self._counts.get(key, (0.0, 0.0))
        guess = GUESS if key[2] else GUESS / (1 + key[1])
        return (right + PRIOR * guess) / (seen + PRIOR)


def worth(chances: list[float], costs: Costs, rows: int, speed: float) -> int:
    """How many nodes with these chances, beside `rows` others, bring more than their time does elsewhere.

    `speed` is what it brings there, in tokens per second.
    """
    seconds = costs.up_to(rows + len(chances))[rows - 1 :]
    gain, best, count = 0.0, 0.0, 0
    for nodes, chance in enumerate(chances, start=1):  # a row may cost nothing after one that costs much
        gain += chance
        net = gain - speed * (seconds[nodes] - seconds[0])
        if net > best:
            best, count = net, nodes
    return count
