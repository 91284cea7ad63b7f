"""Whether the drafter knows how sure it may be: its confidence against what the target took."""

from math import exp

from eagle_chat.records import RoundRecord

BINS = 10


class Calibration:
    """Counts, by confidence, of the drafted tokens that the target was asked about."""

    def __init__(self) -> None:
        self.asked = [0] * BINS
        self.accepted = [0] * BINS

    def add(self, record: RoundRecord) -> None:
        """Count one round: the nodes whose parent was accepted, for nobody asked about the others."""
        tree = record.tree
        if tree.values is None:
            return
        path = frozenset(record.path)
        decided = path if record.bonus is not None else path - {record.path[-1]}
        for node, parent in enumerate(tree.parents[1:], start=1):
            if parent in decided:
                confidence = exp(tree.values[node] - tree.values[parent])
                place = min(BINS - 1, int(BINS * confidence))
                self.asked[place] += 1
                self.accepted[place] += node in path
