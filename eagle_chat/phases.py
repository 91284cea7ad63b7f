"""A round step by step: the draft level by level, the rerank, the verdict in three parts; what each shows.

The order is that of the engine. What a phase shows never moves anything: places are those of the whole round.
"""

from dataclasses import dataclass
from enum import StrEnum

from eagle_chat.records import RoundRecord


class Stage(StrEnum):
    """What happens in a phase; the value is its name on screen."""

    DRAFT = "draft"  # one level of candidates
    RERANK = "rerank"  # the best go to the target, the rest is dropped
    VERIFY = "verify"  # the target's probabilities are known
    ACCEPT = "accept"  # the path that it takes
    OWN = "bonus"  # the target's own token; the round is over


@dataclass(frozen=True, slots=True)
class Phase:
    """One step. `level` counts drafted levels from 1, as far as they are there."""

    stage: Stage
    level: int = 0


@dataclass(frozen=True, slots=True)
class Sight:
    """What of a round is to be seen: everything, unless said otherwise."""

    levels: int | None = None  # drafted levels; None: all of them
    dropped: bool = True  # what was not kept is told from what was
    target: bool = True  # the target's probabilities
    verdict: bool = True  # what it accepted
    own: bool = True  # its own token


EVERYTHING = Sight()
DRAFTED = Sight(target=False, verdict=False, own=False)


def phases(record: RoundRecord) -> tuple[Phase, ...]:
    """All phases of a round, at least one. After the last of them everything is there."""
    if len(record.tree.tokens) == 1:
        return (Phase(Stage.OWN),)
    tree = record.tree
    levels = max(len(tree.drawn), *tree.depths())
    found = [Phase(Stage.DRAFT, level) for level in range(1, levels + 1)]
    if tree.values is None:  # found in one go, as in prompt lookup
        found = [Phase(Stage.DRAFT, levels)]
    if tree.dropped or sum(tree.drawn) > tree.drafted:
        found.append(Phase(Stage.RERANK, levels))
    found += [Phase(stage, levels) for stage in (Stage.VERIFY, Stage.ACCEPT)]
    return (*found, Phase(Stage.OWN, levels)) if record.bonus is not None else tuple(found)


def sight(phase: Phase | None) -> Sight:
    """What is to be seen in a phase; without one, everything."""
    match phase:
        case None | Phase(Stage.OWN):
            return EVERYTHING
        case Phase(Stage.DRAFT, level):
            return Sight(level, dropped=False, target=False, verdict=False, own=False)
        case Phase(Stage.RERANK):
            return DRAFTED
        case Phase(Stage.VERIFY):
            return Sight(verdict=False, own=False)
        case _:
            return Sight(own=False)


def drafting(record: RoundRecord, share: float) -> Phase:
    """The phase of a round whose target has not answered, after a share of the time that drafting takes."""
    drafts = [phase for phase in phases(record) if phase.stage in (Stage.DRAFT, Stage.RERANK)]
    return drafts[max(0, min(int(share * len(drafts)), len(drafts) - 1))]
