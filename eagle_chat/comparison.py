"""Two runs of one prompt: is the text the same, and how much faster was the one that drafted?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eagle_chat.methods import NOT_SEED_EQUAL
from eagle_chat.summary import STOPPED_BY_USER


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a drafted reply and plain decoding part."""

    index: int  # of the first token that differs
    token: int | None  # drafting's; None where its reply had ended
    plain_token: int | None
    fp32_gap: float | None = None  # between the two best scores there, as fp32 sees them; None: not measured
    near_tie: bool | None = None  # small enough for half precision to explain


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison found. Where one run was stopped, tokens count as far as both went."""

    compared: int  # tokens
    whole: bool  # neither run was stopped
    difference: Difference | None
    speedup: float | None  # tokens per second, drafting / plain
    by_right: bool = False  # a difference is no fault: one of them is equal in distribution alone

    @property
    def identical(self) -> bool:
        """Every token of two complete replies is the same."""
        return self.whole and self.difference is None

    def sentence(self, pair: Sequence[str] | None = None, unlike: str | None = None) -> str:
        """The verdict in words.

        `pair` names both runs where the second is not plain decoding, `unlike` says why texts do not compare.
        """
        text = unlike or self._about_text()
        if self.speedup is None:
            return text
        against = f", {pair[0]} against {pair[1]}" if pair else " against plain decoding"
        return f"×{self.speedup:.2f}{against} · {text}"

    def as_json(self) -> dict[str, Any]:
        """Its keys in the JSON objects that commands print."""
        return {
            "speedup": self.speedup,
            "identical": self.identical,
            "first_difference": asdict(self.difference) if self.difference else None,
        }

    def _about_text(self) -> str:
        found = self.difference
        if found and self.by_right:
            return "another text by right: equal in distribution, not token by token"
        if found is None:
            return f"same text ✓ {'' if self.whole else 'as far as both went, '}{self.compared} tokens"
        if found.fp32_gap is None:
            return f"text differs from token {found.index + 1} on"
        gap = f"fp32 gap {found.fp32_gap:.3f}"
        if found.near_tie:
            return f"same text for {found.index} tokens, then a near tie in half precision ({gap})"
        return f"text differs from token {found.index + 1} on ✗ ({gap})"


def judge(
    drafted: Mapping[str, Any], plain: Mapping[str, Any], measured: Difference | None = None
) -> Verdict:
    """The verdict on two replies, from their summaries and, where it is known, the measured difference."""
    runs = drafted, plain
    speeds = drafted.get("tokens_per_second"), plain.get("tokens_per_second")
    return Verdict(
        compared=min(len(drafted.get("tokens", ())), len(plain.get("tokens", ()))),
        whole=_whole(drafted, plain),
        difference=measured or find_difference(drafted, plain),
        speedup=speeds[0] / speeds[1] if speeds[0] and speeds[1] else None,
        by_right=any(run.get("temperature") and run.get("method") in NOT_SEED_EQUAL for run in runs),
    )


def find_difference(drafted: Mapping[str, Any], plain: Mapping[str, Any]) -> Difference | None:
    """Where the tokens of two summaries part. One that ends early differs there, unless it was stopped."""
    tokens, others = drafted.get("tokens", ()), plain.get("tokens", ())
    for index, (token, other) in enumerate(zip(tokens, others, strict=False)):
        if token != other:
            return Difference(index, token, other)
    index = min(len(tokens), len(others))
    if len(tokens) == len(others) or not _whole(drafted, plain):
        return None
    token, other = (run[index] if index < len(run) else None for run in (tokens, others))
    return Difference(index, token, other)


def _whole(*summaries: Mapping[str, Any]) -> bool:
    return all(summary.get("stopped_by") != STOPPED_BY_USER for summary in summaries)
