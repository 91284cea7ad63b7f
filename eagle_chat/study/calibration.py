"""Confidence against acceptance: that they agree is what EAGLE-2's trees rest on."""

from __future__ import annotations

from typing import Any

from eagle_chat.evaluation import Calibration
from eagle_chat.study.asking import Answer
from eagle_chat.study.chart import FEW, FEW_TESTED, Drawing, Mark, Panel, Series, number, share
from eagle_chat.study.lab import Lab
from engine import Drafter, Eagle2

RAW, CALIBRATED = "head alone", "calibrated"
PAPER = "The paper: below 0.05 about 0.04 are accepted, above 0.95 about 0.98 (Vicuna-7B, Alpaca)."


class CalibrationFigure:
    """The head's own confidence, and what becomes of it when acceptance corrects it by depth."""

    stages = ((RAW, CALIBRATED),)

    def __init__(self, lab: Lab) -> None:
        size = lab.size
        self._drafters: dict[str, Drafter] = {
            RAW: Eagle2(lab.head, size.nodes, size.depth, size.beam),
            CALIBRATED: lab.eagle2(size),
        }
        self.found = {name: Calibration() for name in self._drafters}

    def drafter(self, contender: str, question: int) -> Drafter:
        """Who drafts."""
        return self._drafters[contender]

    def add(self, answer: Answer) -> None:
        """Count a reply."""
        for record in answer.records:
            self.found[answer.contender].add(record)

    def drawing(self) -> Drawing:
        """What is known so far."""
        series = tuple(
            Series(
                name,
                tuple(
                    Mark(one.confidence / one.count, one.accepted / one.count, few=one.count < FEW)
                    for one in found.bins
                    if one.count
                ),
            )
            for name, found in self.found.items()
        )
        ticks = tuple((i / 5, f"{i / 5:.1f}") for i in range(6))
        panel = Panel("share accepted, by confidence", series, ticks, (0.0, 1.0), diagonal=True)
        columns = tuple(f"{name}\n{what}" for name in self.found for what in ("tested", "accepted"))
        return Drawing((panel,), ("confidence", *columns), self._rows(), FEW_TESTED, self._notes())

    def as_json(self) -> dict[str, Any]:
        """The keys `raw` and `calibrated`, with bins as `evaluate --json` has them."""
        keys = {RAW: "raw", CALIBRATED: "calibrated"}
        return {
            keys[name]: {
                "bins": found.as_json(),
                "tested": found.tested,
                "error": found.error,
                "expected_per_round": found.expected_per_round,
                "accepted_per_round": found.accepted_per_round,
                "rounds": found.rounds,
            }
            for name, found in self.found.items()
        }

    def _rows(self) -> tuple[tuple[str, ...], ...]:
        bins = [found.bins for found in self.found.values()]
        rows = []
        for place, together in enumerate(zip(*bins, strict=True)):
            row = [f"{place / len(bins[0]):.1f} to {(place + 1) / len(bins[0]):.1f}"]
            for one in together:
                row += [str(one.count), share(one.accepted, one.count)]
            rows.append(tuple(row))
        return tuple(rows)

    def _notes(self) -> tuple[str, ...]:
        parts = [
            f"{name} off by {number(found.error, 3)} in {found.rounds} rounds"
            for name, found in self.found.items()
        ]
        meaning = "Tested nodes only: those whose parent was accepted."
        return f"{meaning} {', '.join(parts)}.", PAPER
