"""The decoding loop: one for every drafter and every temperature."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor

from engine.costs import Costs
from engine.drafters import Drafter, NoDrafter
from engine.errors import PromptTooLongError, SettingsError
from engine.features import FeatureStore
from engine.residual import OwnRule
from engine.sampling import GenerationSettings, Sampler
from engine.target import Target, shared_prefix
from engine.tree import DraftTree
from engine.verify import accept


@dataclass(frozen=True)
class Timing:
    """Seconds of one round on the engine's clock, which stands still while the consumer holds the generator.

    On CUDA the phases end where their results reach the host; no synchronisation is added for the sake of a
    number.
    """

    draft: float = 0.0  # propose, and the head's catch-up
    verify: float = 0.0  # the target's forward
    other: float = 0.0  # acceptance, KV compaction, the loop; all of round 0, the prefill


@dataclass(frozen=True)
class Prefill:
    """Progress through the prompt, before the first round."""

    done: int
    total: int


@dataclass(frozen=True)
class Round:
    """What one target forward did. Round 0 is the prefill, which commits the first token.

    The probabilities are computed on request and only valid until the generator resumes.
    """

    index: int
    new: list[int]  # tokens committed
    tree: DraftTree
    path: list[int]  # the root, then the accepted nodes that were committed
    logits: Tensor  # [N, V], or [1, V] in round 0
    timing: Timing
    stopped_by: str | None  # "stop_token", "max_new_tokens", "context", or None: more to come
    sampler: Sampler = field(repr=False)
    tokens: list[int] = field(repr=False)  # the engine's: all that is committed
    start: int  # how many were committed before this round
    walked: bool = True  # along the target's own draws; False: accepted by a rule of the drafter's

    @property
    def bonus(self) -> int | None:
        """The target's own token, which ends the round unless the cut removed it."""
        return self.new[-1] if len(self.new) == len(self.path) else None

    def bonus_probability(self) -> float | None:
        """The target's probability of the bonus."""
        if self.bonus is None:
            return None
        prefix = self.tokens[: self.start + len(self.new) - 1]
        return self.sampler.probability(self.logits[self.path[-1]], prefix, [self.bonus])[0]

    def probabilities(self) -> list[float]:
        """The target's probability of each node given its parent, [N]; 1 for the root."""
        tokens, parents = self.tree.host
        if self.sampler.greedy:
            scores = self.logits.float()
            log_p = scores[parents[1:], tokens[1:]] - scores.logsumexp(-1)[parents[1:]]
            return [1.0, *log_p.exp().tolist()]
        result = [1.0] * len(tokens)
        prefixes = [self.tokens[: self.start]]
        for node in range(1, len(tokens)):
            prefixes.append([*prefixes[parents[node]], tokens[node]])
        for parent in sorted(set(parents[1:])):
            children = [node for node in range(1, len(tokens)) if parents[node] == parent]
            row = self.sampler.probability(
                self.logits[parent], prefixes[parent], [tokens[c] for c in children]
            )
            for child, p in zip(children, row, strict=True):
                result[child] = p
        return result

    def noise(self) -> list[float | None] | None:
        """The noise of each node where its parent was asked and of the bonus last.

        None where it decided nothing: at temperature 0, and where the walk is not the rule.
        """
        if self.sampler.greedy or not self.walked:
            return None
        tokens, parents = self.tree.host
        result: list[float | None] = [None] * (len(tokens) + 1)
        for depth, asked in enumerate(self.path if self.bonus is not None else self.path[:-1]):
            row = self.sampler.noise(self.start + depth, self.logits.shape[-1], self.logits.device)
            nodes = [node for node in range(1, len(tokens)) if parents[node] == asked]
            drawn = [tokens[node] for node in nodes]
            if asked == self.path[-1] and self.bonus is not None:
                nodes, drawn = [*nodes, len(tokens)], [*drawn, self.bonus]
            for node, value in zip(nodes, row[drawn].tolist(), strict=True):
                result[node] = value
        return result


class Engine:
    """A target, the drafters it can be paired with, and the conversation in their caches.

    Invariant whenever a generator is suspended at a `Round`: `target.length == len(tokens) - 1`. A round
    commits wholly or not at all, so a generator may be closed between rounds and an exception inside one
    loses nothing before it.
    """

    def __init__(
        self, target: Target, drafters: dict[str, Drafter] | None = None, costs: Costs | None = None
    ) -> None:
        """`costs` follow the target's forwards, for drafters that size their trees by them."""
        _check_takes_trees(target, drafters or {})
        self.target = target
        self.costs = costs
        self.drafters: dict[str, Drafter] = {"none": NoDrafter(), **(drafters or {})}
        self.target.taps = self._taps(self.drafters)
        self.features = FeatureStore() if self.target.taps else None
        self.tokens: list[int] = []  # committed, the pending one last
        self._newest = object()  # stands for the generator that owns the caches

    def add(self, drafters: dict[str, Drafter]) -> None:
        """More to choose from. The text is read again where they want hidden states that were not kept."""
        _check_takes_trees(self.target, drafters)
        taps = self._taps({**self.drafters, **drafters})
        if taps != self.target.taps:
            self.reset()
            self.target.taps, self.features = taps, FeatureStore()
        self.drafters |= drafters

    def reset(self) -> None:
        """Forget the conversation."""
        self._rewind(0)
        self.tokens = []

    @torch.inference_mode()
    def generate(
        self, prompt: list[int], settings: GenerationSettings, method: str = "none"
    ) -> Generator[Prefill | Round, None, None]:
        """Decode after `prompt`, reusing what is cached of it. Close the generator to stop between rounds.

        Raises SettingsError for an empty prompt, PromptTooLongError where no token would fit.
        """
        if not prompt:
            raise SettingsError("the prompt is empty")
        if len(prompt) >= self.target.context:
            raise PromptTooLongError(
                f"the prompt has {len(prompt)} tokens and the context holds {self.target.context}: shorten it"
            )
        self._newest = current = object()
        try:
            for event in self._decode(prompt, settings, self.drafters[method]):
                yield event
                if self._newest is not current:
                    raise RuntimeError("resumed after a newer one took over the caches")
        except BaseException:
            if self._newest is current:  # an older one, closed late, has nothing to undo
                self._rewind(len(self.tokens) - 1)
            raise

    def _decode(
        self, prompt: list[int], settings: GenerationSettings, drafter: Drafter
    ) -> Iterator[Prefill | Round]:
        sampler = Sampler(settings)
        limit = min(len(prompt) + settings.max_new_tokens, self.target.context)
        rule = drafter.accept if isinstance(drafter, OwnRule) else accept
        logits, seconds = yield from self._prefill(prompt, drafter)
        began = time.perf_counter()
        tree, path, new = DraftTree.chain(prompt[-1:]), [0], [sampler.pick(logits[-1], prompt)]
        timing = Timing(other=seconds + time.perf_counter() - began)
        for index in count():
            start = len(self.tokens)
            self.tokens += new
            stopped_by = self._stopped_by(settings, limit)
            yield Round(
                index,
                new,
                tree,
                path[: len(new) + 1],
                logits,
                timing,
                stopped_by,
                sampler,
                self.tokens,
                start,
                walked=rule is accept,
            )
            if stopped_by:
                return

            began = time.perf_counter()
            drafter.observe(self.tokens, self._committed_features(), logits, path)
            tree = drafter.propose(self.tokens, sampler).clip(limit - len(self.tokens) - 1)
            if tree.host.tokens[0] != self.tokens[-1]:
                raise ValueError(f"{type(drafter).__name__} proposed a tree below another token")
            drafted = time.perf_counter()
            logits, features = self.target.verify(tree)
            self._settle()
            verified = time.perf_counter()
            if self.costs:
                self.costs.saw(len(tree), verified - drafted)
            path, bonus = rule(tree, logits, self.tokens, sampler)
            new = [*(tree.host.tokens[node] for node in path[1:]), bonus]
            new = _cut(new, settings.stop_ids, room=limit - len(self.tokens))
            # The last of `new` is pending, so exactly len(new) rows stay: stop tokens and limits need no
            # other case.
            self.target.keep(path[: len(new)])
            if self.features is not None and features is not None:
                kept = torch.tensor(path[: len(new)]).to(features.device, non_blocking=True)
                self.features.append(features.index_select(0, kept))
            timing = Timing(drafted - began, verified - drafted, time.perf_counter() - verified)

    def _prefill(self, prompt: list[int], drafter: Drafter) -> Generator[Prefill, None, tuple[Tensor, float]]:
        """Cache what the caches lack of the prompt: the last logits [1, V] and the seconds it took.

        One token less than the shared prefix is reused: a head pairs feature i with token i + 1, and the last
        logits are needed again. Drafters observe chunk by chunk, so that their share counts as prefill too.
        """
        began, seconds = time.perf_counter(), 0.0
        reuse = max(0, min(shared_prefix(self.tokens, prompt) - 1, self.target.length))
        reuse = self._rewind(reuse)
        self.tokens = prompt[:reuse]
        for chunk in self.target.extend(prompt[reuse:]):
            if self.features is not None and chunk.features is not None:
                self.features.append(chunk.features)
            self.tokens = prompt[: reuse + chunk.done]
            drafter.observe(self.tokens, self._committed_features(), chunk.logits, [0])
            self._settle()
            seconds += time.perf_counter() - began
            yield Prefill(len(self.tokens), len(prompt))
            began = time.perf_counter()
        return chunk.logits, seconds

    def _committed_features(self) -> Tensor | None:
        """[len(tokens) - 1, F]: those of every token but the pending one."""
        return None if self.features is None else self.features.rows(len(self.tokens) - 1)

    @staticmethod
    def _taps(drafters: dict[str, Drafter]) -> tuple[int, ...]:
        """The hidden states that they read, all of them the same ones."""
        taps = {drafter.taps for drafter in drafters.values() if drafter.taps}
        if len(taps) > 1:
            raise SettingsError(f"the drafters read different hidden states: {sorted(taps)}")
        return taps.pop() if taps else ()

    def _stopped_by(self, settings: GenerationSettings, limit: int) -> str | None:
        if self.tokens[-1] in settings.stop_ids:
            return "stop_token"
        if len(self.tokens) < limit:
            return None
        return "context" if limit == self.target.context else "max_new_tokens"

    def _rewind(self, length: int) -> int:
        """Make every cache forget what follows the first `length` tokens; how many are left."""
        self.target.rewind(max(0, min(length, self.target.length)))
        length = self.target.length  # none where the target keeps no rows of its past
        if self.features is not None:
            self.features.rewind(length)
        for drafter in self.drafters.values():
            drafter.rewind(length)
        return length

    def _settle(self) -> None:
        """On CUDA, wait for the forward. The next step reads its result on the host anyway."""
        if self.target.device.type == "cuda":
            torch.cuda.current_stream(self.target.device).synchronize()


def _check_takes_trees(target: Target, drafters: dict[str, Drafter]) -> None:
    if drafters and not target.takes_trees:
        raise SettingsError(f"{type(target.model).__name__} can only decode plainly, without a drafter")


def _cut(new: list[int], stop_ids: frozenset[int], room: int) -> list[int]:
    """`new` up to its first stop token, at most `room` tokens."""
    for i, token in enumerate(new[:room]):
        if token in stop_ids:
            return new[: i + 1]
    return new[:room]
