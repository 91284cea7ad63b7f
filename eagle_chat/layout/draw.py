"""At temperature above 0 the target takes the token with the highest log-probability plus noise."""

from dataclasses import dataclass
from math import inf, log

from eagle_chat.layout.states import own_token
from eagle_chat.records import RoundRecord


@dataclass(frozen=True, slots=True)
class Draw:
    """What a token had when the target drew."""

    noise: float  # keyed by seed, position and token, so that no drafter can change it
    score: float  # log-probability + noise; minus infinity where top-k, top-p or min-p ruled it out

    def noise_text(self) -> str:
        """The noise, with its sign."""
        return f"{self.noise:+.2f}"

    def score_text(self) -> str:
        """The score, or that there was none."""
        return "ruled out" if self.score == -inf else f"{self.score:.2f}"


def draw_of(record: RoundRecord, node: int) -> Draw | None:
    """The draw of a node whose parent was asked, or of the target's own token; None where not recorded."""
    tree = record.tree
    if node == own_token(record):
        p, noise = record.bonus_target, record.bonus_noise
    elif node < len(tree.tokens) and tree.noise is not None and tree.target is not None:
        p, noise = tree.target[node], tree.noise[node]
    else:
        return None
    if p is None or noise is None:
        return None
    return Draw(noise, log(p) + noise if p > 0 else -inf)
