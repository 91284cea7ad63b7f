"""How much of what the target says a draft vocabulary covers, by its size, and what that does to τ."""

from __future__ import annotations

from math import log2
from typing import Any

import torch
from torch import Tensor

from eagle_chat.study.asking import Answer, Pairs
from eagle_chat.study.chart import Drawing, Mark, Panel, Series, number
from eagle_chat.study.lab import Lab
from eagle_chat.study.numbers import tau
from engine import Drafter, Eagle2, Sampler
from engine.drafters.eagle3_head import Eagle3Head
from engine.drafters.eagle_head import EagleHead
from engine.drafters.trimmed import trimmed
from engine.tree import DraftTree

WHOLE = "whole"
HALVES = 2  # of the questions: each half's text says in which order the other half's vocabulary grows
SMALLER = (32, 16, 8, 4, 2)  # shares of the head's vocabulary
FEW_TOKENS = 1000


class Witness:
    """A drafter that notes what the target said, and how likely each token was to it, in the rounds it saw.

    The last round of a reply is not seen: nothing is drafted after it.
    """

    def __init__(self, drafter: Drafter, vocabulary: int, device: torch.device) -> None:
        self.taps = drafter.taps
        self.said = torch.zeros(vocabulary, dtype=torch.long, device=device)  # how often
        self.likely = torch.zeros(vocabulary, dtype=torch.float64, device=device)  # summed probability
        self._drafter = drafter
        self._seen: tuple[Tensor, list[int]] | None = None

    def observe(self, tokens: list[int], features: Tensor | None, logits: Tensor, path: list[int]) -> None:
        """Of a prompt only the last logits count, and those come again once a token is committed."""
        self._seen = logits, path
        self._drafter.observe(tokens, features, logits, path)

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """What was observed last is one round: a row of logits for each token that it committed."""
        assert self._seen is not None
        logits, path = self._seen
        new = torch.tensor(tokens[-len(path) :], device=self.said.device)
        self.said += torch.bincount(new, minlength=len(self.said))
        self.likely += logits[path].float().softmax(-1).sum(0).to(self.likely.device)
        return self._drafter.propose(tokens, sampler)

    def rewind(self, length: int) -> None:
        """What was said stays noted."""
        self._drafter.rewind(length)


class VocabularyFigure:
    """First the whole head answers, then its smaller versions, whose order of tokens the other half gave."""

    def __init__(self, lab: Lab) -> None:
        assert isinstance(lab.head, EagleHead | Eagle3Head)
        self._lab, self._head = lab, lab.head
        whole = lab.head.vocabulary
        least = lab.size.beam
        self._sizes = {str(size): size for part in SMALLER if (size := whole // part) >= least}
        self.stages = ((WHOLE,), tuple(self._sizes)) if self._sizes else ((WHOLE,),)
        drafted = lab.head.draft_vocab
        device = lab.head.device
        self._drafted = torch.arange(whole, device=device) if drafted is None else drafted.to(device)
        self._witnesses = [
            Witness(lab.eagle2(lab.size), lab.head.target_vocabulary, device) for _ in range(HALVES)
        ]
        self._drafters: dict[tuple[str, int], Eagle2] = {}
        self._whole = Pairs((WHOLE,))
        self._pairs = Pairs((WHOLE, *self._sizes))

    def drafter(self, contender: str, question: int) -> Drafter:
        """Who drafts; each half of the questions has its own."""
        half = question % HALVES
        if contender == WHOLE:
            return self._witnesses[half]
        key = contender, half
        if key not in self._drafters:
            rows = self._order(half)[: self._sizes[contender]].sort().values
            self._drafters[key] = self._lab.eagle2(self._lab.size, trimmed(self._head, rows))
        return self._drafters[key]

    def add(self, answer: Answer) -> None:
        """Count a reply; the witnesses have counted its tokens."""
        self._pairs.add(answer)
        if answer.contender == WHOLE:
            self._whole.add(answer)

    def drawing(self) -> Drawing:
        """What is known so far."""
        found = self.as_json()["sizes"]
        tokens = self._tokens
        few = tokens < FEW_TOKENS

        def series(name: str, key: str) -> Series:
            known = [(log2(one["size"]), one[key]) for one in found if one[key] is not None]
            return Series(name, tuple(Mark(x, y, few=few) for x, y in known))

        ticks = tuple((log2(one["size"]), str(one["size"])) for one in found)
        covered = (
            series("of the tokens", "tokens_covered"),
            series("of the probability", "probability_covered"),
        )
        panels = (
            Panel("share covered, by size", covered, ticks),
            Panel("τ, by size", (series("τ", "tau"),), ticks),
        )
        keys = ("tokens_covered", "probability_covered")
        rows = tuple(
            (str(one["size"]), *(number(one[key], 4) for key in keys), number(one["tau"]), str(one["rounds"]))
            for one in found
        )
        heads = ("draft vocabulary", "tokens covered", "probability covered", "τ", "rounds")
        return Drawing(panels, heads, rows, f"fewer than {FEW_TOKENS} tokens", self._notes(tokens))

    def as_json(self) -> dict[str, Any]:
        """The keys `sizes`, a list, and `tokens`, how many the shares are of."""
        pairs = self._pairs if self._pairs.complete else self._whole
        found = []
        for name, size in {**self._sizes, WHOLE: len(self._drafted)}.items():
            tallies = pairs.by_task(name) if name in pairs.contenders else {}
            said, likely = self._covered(size)
            found.append(
                {
                    "size": size,
                    "tokens_covered": said,
                    "probability_covered": likely,
                    "tau": tau(tallies.values()),
                    "rounds": sum(tally[1] for tallies_ in tallies.values() for tally in tallies_),
                }
            )
        return {"sizes": found, "tokens": self._tokens, "target_vocabulary": self._head.target_vocabulary}

    @property
    def _tokens(self) -> int:
        return sum(int(one.said.sum()) for one in self._witnesses)

    def _order(self, half: int) -> Tensor:
        """Places in the head's vocabulary, best first, for one half of the questions.

        By how often the other half's text has the token, then by its id: tokenizers give small ids to what
        their training text had often.
        """
        counts = sum(one.said for place, one in enumerate(self._witnesses) if place != half)
        assert isinstance(counts, Tensor)
        return counts[self._drafted].argsort(descending=True, stable=True)

    def _covered(self, size: int) -> tuple[float | None, float | None]:
        """Shares of the tokens and of the probability; None before the first token."""
        if not self._tokens:
            return None, None
        said = likely = 0.0
        for half, one in enumerate(self._witnesses):
            ids = self._drafted[self._order(half)[:size]]
            said += float(one.said[ids].sum())
            likely += float(one.likely[ids].sum())
        return said / self._tokens, likely / self._tokens

    def _notes(self, tokens: int) -> tuple[str, ...]:
        few = " That is few: the shares are rough." if tokens < FEW_TOKENS else ""
        notes = [
            f"Shares are of {tokens} tokens.{few} The head knows {len(self._drafted)} of the target's "
            f"{self._head.target_vocabulary}; they are taken in the order of the other half's text, then of "
            "their ids. The text's own tokens join each, when drafting; they are not counted as covered.",
            self._pairs.note(),
        ]
        return tuple(note for note in notes if note)
