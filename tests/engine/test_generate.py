"""The loop's edges: stops, limits, progress, probabilities and the clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import (
    DraftModel,
    DraftTree,
    Eagle2,
    Engine,
    GenerationSettings,
    PromptLookup,
    PromptTooLongError,
    Round,
    Sampler,
    StockTarget,
    load_eagle_head,
)
from tests.engine.conftest import DRAFTERS, Bench
from tests.engine.stubs import Blind, Noise, check_invariant, plain_reply, reply, rounds
from tests.engine.tiny import make_model, perturbed, write_layout

PROMPT = [8, 2, 61, 30, 4, 4, 19]
METHODS = ("none", *DRAFTERS, "script")


class Script(Blind):
    """A chain of the next four tokens of the plain reply: everything is accepted, every round brings five."""

    def __init__(self) -> None:
        self.future: list[int] = []

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        """Root and future."""
        return DraftTree.chain([tokens[-1], *self.future[len(tokens) : len(tokens) + 4]])


@pytest.fixture
def scripted(llama: Bench) -> Bench:
    """With every drafter and a Script, both knowing the greedy reply to PROMPT."""
    script = Script()
    script.future = PROMPT + plain_reply(llama.target, PROMPT, GenerationSettings(max_new_tokens=40))
    llama.oracle.future = script.future
    engine = Engine(StockTarget(llama.target.model), {**llama.engine.drafters, "script": script})
    return Bench(llama.target, engine, llama.oracle)


def first_occurrences(text: list[int]) -> list[int]:
    """Indices at which a token appears for the first time."""
    return [i for i, token in enumerate(text) if token not in text[:i]]


@pytest.mark.parametrize("method", METHODS)
def test_stops_at_every_place(scripted: Bench, method: str) -> None:
    """A stop token that is first, in mid-path, last of a path or the bonus; what follows it must go."""
    text = list(scripted.oracle.future[len(PROMPT) :])
    for index in first_occurrences(text)[:12]:
        settings = GenerationSettings(max_new_tokens=40, stop_ids=frozenset({text[index]}))
        scripted.engine.reset()
        seen = list(rounds(scripted.engine, PROMPT, settings, method))
        assert [token for r in seen for token in r.new] == text[: index + 1]
        assert [r.stopped_by for r in seen] == [None] * (len(seen) - 1) + ["stop_token"]
        follow_up = [*scripted.engine.tokens, 5, 6]
        plain = GenerationSettings(max_new_tokens=6)
        expected = plain_reply(scripted.target, follow_up, plain)
        assert reply(scripted.engine, follow_up, plain, method) == expected


@pytest.mark.parametrize(
    ("index", "new", "path", "has_bonus"),
    [
        (0, 1, 1, True),
        (1, 1, 2, False),
        (3, 3, 4, False),
        (4, 4, 5, False),
        (5, 5, 5, True),
        (6, 1, 2, False),
    ],
)
def test_a_stop_token_cuts_the_round(
    scripted: Bench, index: int, new: int, path: int, has_bonus: bool
) -> None:
    """A path longer than what was committed, or a bonus that was not: displays and τ would count them."""
    text = list(scripted.oracle.future[len(PROMPT) :])
    assert first_occurrences(text)[:7] == list(range(7))
    settings = GenerationSettings(max_new_tokens=40, stop_ids=frozenset({text[index]}))
    last = list(rounds(scripted.engine, PROMPT, settings, "script"))[-1]
    assert (len(last.new), len(last.path)) == (new, path)
    assert last.bonus == (text[index] if has_bonus else None)
    assert (last.bonus_probability() is None) == (not has_bonus)
    assert last.new == [last.tree.host.tokens[node] for node in last.path[1:]] + [last.bonus] * has_bonus


def test_a_stop_token_in_the_prompt_is_nothing(scripted: Bench) -> None:
    """A chat whose earlier turns end in stop tokens must not end at once."""
    settings = GenerationSettings(max_new_tokens=3, stop_ids=frozenset({19, 8}))
    assert len(reply(scripted.engine, PROMPT, settings)) == 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7, 11])
def test_new_tokens_are_counted_exactly(scripted: Bench, method: str, limit: int) -> None:
    """A path that overruns the limit, or a tree deeper than what may still be committed."""
    settings = GenerationSettings(max_new_tokens=limit)
    seen = list(rounds(scripted.engine, PROMPT, settings, method))
    end = len(PROMPT) + limit
    assert scripted.engine.tokens == scripted.oracle.future[:end]
    assert [r.stopped_by for r in seen] == [None] * (len(seen) - 1) + ["max_new_tokens"]
    assert all(max(r.tree.depths) <= end - r.start - 1 for r in seen[1:])


def test_a_stop_token_at_the_limit_is_a_stop(scripted: Bench) -> None:
    """'cut short' shown for a reply that is complete."""
    text = scripted.oracle.future[len(PROMPT) :]
    settings = GenerationSettings(max_new_tokens=4, stop_ids=frozenset({text[3]}))
    assert list(rounds(scripted.engine, PROMPT, settings))[-1].stopped_by == "stop_token"


def small_engine(tmp_path: Path, context: int) -> Engine:
    """All real drafters on a model of a small context; the draft model's is smaller still."""
    model = make_model("llama", context=context)
    target = StockTarget(model)
    head = load_eagle_head(write_layout(tmp_path, "llama3", model), target, "small")
    short = perturbed(make_model("llama", context=context - 8), 3, 0.02)
    return Engine(
        target,
        {
            "eagle2": Eagle2(head, 20, 4, 6),
            "pld": PromptLookup(4),
            "draft-model": DraftModel(StockTarget(short), 97, 4),
            "noise": Noise(97),
        },
    )


@pytest.mark.parametrize("method", ["none", "eagle2", "pld", "draft-model", "noise"])
def test_the_context_is_filled_and_not_passed(tmp_path: Path, method: str) -> None:
    """Positions beyond what the model was made for, or a reply that stops short of them."""
    engine = small_engine(tmp_path, context=40)
    for length in (1, 20, 33, 38, 39):
        prompt = [(3 * i + i * i) % 90 for i in range(length)]
        seen = list(rounds(engine, prompt, GenerationSettings(max_new_tokens=100), method))
        assert len(engine.tokens) == 40
        assert seen[-1].stopped_by == "context"
        assert all(max(r.tree.depths) <= 40 - r.start - 1 for r in seen[1:])
        expected = plain_reply(engine.target, prompt, GenerationSettings(max_new_tokens=100))
        assert engine.tokens == prompt + expected


@pytest.mark.parametrize("length", [40, 41, 700])
def test_prompts_without_room_are_refused(tmp_path: Path, length: int) -> None:
    """A prompt that fills the context fails before anything is computed, and costs nothing."""
    engine = small_engine(tmp_path, context=40)
    first = reply(engine, PROMPT, GenerationSettings(max_new_tokens=5), "eagle2")
    with pytest.raises(PromptTooLongError, match=rf"{length} tokens.*context.* 40"):
        next(iter(engine.generate([1] * length, GenerationSettings(), "eagle2")))
    assert engine.tokens == PROMPT + first
    check_invariant(engine)


def test_an_empty_prompt_is_refused(llama: Bench) -> None:
    """There is no root to start from."""
    with pytest.raises(ValueError, match="empty"):
        next(iter(llama.engine.generate([], GenerationSettings())))


def test_reset_forgets_everything(llama: Bench) -> None:
    """Rows of a conversation that was cleared."""
    settings = GenerationSettings(max_new_tokens=10)
    for method in ("none", *DRAFTERS):
        reply(llama.engine, PROMPT, settings, method)
        llama.engine.reset()
        assert (llama.engine.tokens, llama.engine.target.length) == ([], 0)
    assert reply(llama.engine, PROMPT, settings, "eagle2") == plain_reply(llama.target, PROMPT, settings)


def test_drafters_of_different_taps_are_refused(llama: Bench) -> None:
    """A head that would read another head's hidden states."""
    other = Noise(97)
    other.taps = (0, 1)
    with pytest.raises(ValueError, match="different hidden states"):
        Engine(StockTarget(llama.target.model), {"a": llama.engine.drafters["eagle2"], "b": other})


def test_a_draft_model_of_another_vocabulary_is_refused(llama: Bench) -> None:
    """Token ids of one model fed to another."""
    with pytest.raises(ValueError, match="vocabulary of 97 tokens and the target one of 101"):
        DraftModel(llama.target, 101, 4)


def test_an_older_generator_closed_late_does_no_harm(llama: Bench) -> None:
    """A cancelled reply whose generator is collected while the next prompt is being read."""
    settings = GenerationSettings(max_new_tokens=10)
    older = llama.engine.generate(PROMPT, settings)
    for _ in range(3):
        next(older)
    prompt = [(7 * i + i * i) % 90 for i in range(700)]
    expected = plain_reply(llama.target, prompt, settings)
    newer = llama.engine.generate(prompt, settings)
    next(newer)
    older.close()
    new = [token for event in newer if isinstance(event, Round) for token in event.new]
    assert new == expected


def test_an_older_generator_cannot_be_resumed(llama: Bench) -> None:
    """A reply that goes on in caches which meanwhile hold another conversation."""
    settings = GenerationSettings(max_new_tokens=10)
    older = llama.engine.generate(PROMPT, settings)
    next(older)
    newer = llama.engine.generate(PROMPT[::-1], settings)
    expected = plain_reply(llama.target, PROMPT[::-1], settings)
    next(newer)
    with pytest.raises(RuntimeError, match="newer one"):
        next(older)
    assert [token for event in newer if isinstance(event, Round) for token in event.new] == expected


class Elsewhere(Blind):
    """Proposes a tree below a token that nobody committed."""

    def propose(self, tokens: list[int], sampler: Sampler) -> DraftTree:
        return DraftTree.chain([(tokens[-1] + 1) % 90])


def test_a_tree_below_another_token_is_refused(llama: Bench) -> None:
    """A drafter's mistake that would change the text without a sign: the root is not drafted."""
    engine = Engine(StockTarget(llama.target.model), {"elsewhere": Elsewhere()})
    with pytest.raises(ValueError, match="Elsewhere"):
        list(engine.generate(PROMPT, GenerationSettings(max_new_tokens=10), "elsewhere"))
