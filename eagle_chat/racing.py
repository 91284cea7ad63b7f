"""Two recorded runs beside each other: who is ahead, is the text the same, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eagle_chat.bench_machine import without_path
from eagle_chat.comparison import Difference, judge
from eagle_chat.replaying import Frame, Replay
from eagle_chat.result_card import method_name, result_card


class Race:
    """Knows both runs whole; what it says of a moment depends on the two frames alone."""

    def __init__(
        self,
        replays: Sequence[Replay],
        names: Sequence[str],
        *,
        machine: str | None = None,
        measured: Difference | None = None,
    ) -> None:
        """`machine` names what both ran on, `measured` is where they part, where that was looked into."""
        self.traces = [replay.trace for replay in replays]
        self._machine = machine
        self._measured = measured
        methods = [method_name(trace.header["method"]) for trace in self.traces]
        self.labels = methods if methods[0] != methods[1] else list(names)
        self.tokens = [[token for done in each.rounds for token in done.record.new] for each in self.traces]
        one, other = self.tokens
        self._same = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
                          min(len(one), len(other)))  # fmt: skip

    @property
    def most_tokens(self) -> int:
        """Of the longer run."""
        return max(map(len, self.tokens))

    def line(self, frames: Sequence[Frame]) -> str:
        """How it stands; once both are over, the verdict."""
        if all(frame.over for frame in frames):
            return self.verdict()
        one, other = (frame.statistics.new_tokens for frame in frames)
        ahead = abs(one - other)
        leader = self.labels[one < other]
        lead = f"{leader} is {ahead} token{'s' * (ahead != 1)} ahead" if ahead else "level"
        return f"{lead} · {self._text_so_far(min(one, other))}" if not self._unlike() else lead

    def verdict(self) -> str:
        """Speed and text of the two complete runs."""
        first, second = self.traces
        # drafting against plain decoding, whichever file was named first; otherwise as they were named
        turned = first.header["method"] == "none" != second.header["method"]
        one, other = (second, first) if turned else (first, second)
        cut = [label for label, trace in zip(self.labels, self.traces, strict=True) if trace.summary is None]
        if one.summary is None or other.summary is None:
            return f"no verdict: the recording of {' and '.join(cut)} was cut off"
        verdict = judge(one.summary, other.summary, self._measured)
        unlike = self._unlike()
        if unlike is None and other.header["method"] == "none" != one.header["method"]:
            return verdict.sentence()
        return verdict.sentence(self.labels[::-1] if turned else self.labels, unlike)

    def card(self) -> str | None:
        """The result card; None where a recording was cut off."""
        summaries = [trace.summary for trace in self.traces if trace.summary is not None]
        if len(summaries) < len(self.traces):
            return None
        drafting = next((trace for trace in self.traces if trace.header["method"] != "none"), self.traces[0])
        machine = self._machine or str(drafting.header.get("machine", "unknown"))
        drafted = (trace.info.head for trace in self.traces if trace.header["method"] != "none")
        heads = " and ".join(dict.fromkeys(without_path(head) for head in drafted if head))
        info = replace(drafting.info, head=heads or None)
        return result_card(drafting.header["prompt"], summaries, self.verdict(), info, machine)

    def _text_so_far(self, tokens: int) -> str:
        if tokens <= self._same:
            return f"same text so far ✓ {tokens} tokens"
        return f"texts differ from token {self._same + 1} on"

    def _unlike(self) -> str | None:
        """Why the texts cannot be expected to be the same."""
        first, second = self.traces
        if first.header["prompt"] != second.header["prompt"]:
            return "different prompts, so the texts do not compare"
        if first.info.weights_sha256 != second.info.weights_sha256:
            return "different models, so the texts do not compare"
        sampled = first.info.temperature or second.info.temperature
        drawn = [(trace.info.temperature, trace.header["seed"]) for trace in self.traces]
        if sampled and drawn[0] != drawn[1]:
            return "different seeds or temperatures, so the texts do not compare"
        return None
