"""Conversations that the target writes itself: their features, their turns, and where they end."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.training import Role, Style, Synthesis
from engine.training.synthesis import loops
from tests.engine.tiny import MODELS, make_model
from tests.engine.tiny_training import LAYOUT, STOP, STYLE, write


@pytest.mark.parametrize("name", MODELS)
def test_synthesis_features_are_those_of_a_plain_forward(name: str) -> None:
    """A cache slab written in the wrong place, or attention with the wrong group order, changes them."""
    model = make_model(name)
    conversations = write(Synthesis(model, LAYOUT, taps=(1, -1), rows=5, style=STYLE), number=0)
    assert len(conversations) == 5
    for conversation in conversations:
        assert conversation.features is not None
        outputs = model(input_ids=conversation.tokens[None].long(), output_hidden_states=True)
        expected = torch.cat([outputs.hidden_states[1][0], outputs.hidden_states[-1][0]], dim=-1)
        torch.testing.assert_close(conversation.features, expected, rtol=1e-3, atol=1e-3)
    assert model.config._attn_implementation == "sdpa"  # as StockTarget needs it


def test_turns_follow_the_template() -> None:
    """A stop token that is not replaced by the template's text would teach a broken format."""
    batches = Synthesis(make_model("llama"), LAYOUT, taps=(-1,), rows=8, style=STYLE)
    for number, (role, opening) in enumerate(LAYOUT.openings):
        for conversation in write(batches, number):
            tokens = conversation.tokens.tolist()
            assert tuple(tokens[: len(opening)]) == opening
            at, turn = len(opening), role
            while True:
                try:
                    end = tokens.index(STOP, at)
                except ValueError:
                    break
                assert end - at <= getattr(STYLE, turn.value)
                after = LAYOUT.after[turn]
                assert tuple(tokens[end : end + len(after)]) == after[: len(tokens) - end]
                at = end + len(after)
                turn = {Role.SYSTEM: Role.USER, Role.USER: Role.ASSISTANT}.get(turn, Role.USER)
            assert at > len(opening)  # at least one turn ended


def test_some_requests_begin_as_they_are_told() -> None:
    """Words put into another mouth, or a turn that the model does not go on with."""
    layout = replace(LAYOUT, requests=((30, 31), (32,)))
    synthesis = Synthesis(make_model("llama"), layout, taps=(-1,), rows=24, style=replace(STYLE, request=0.5))
    opening = LAYOUT.openings[0][1]
    begun = 0
    for conversation in write(synthesis, 0):  # opens with the user's turn
        tokens = conversation.tokens.tolist()
        first = next(
            (r for r in layout.requests if tuple(tokens[len(opening) : len(opening) + len(r)]) == r), None
        )
        begun += first is not None
        turn = tokens[len(opening) : tokens.index(STOP)]
        assert len(turn) <= STYLE.user + len(first or ())
        assert len(turn) >= len(first or ())
    assert 4 <= begun <= 20
    mute = Synthesis(make_model("llama"), layout, taps=(-1,), rows=24, style=replace(STYLE, request=0.0))
    plain = Synthesis(make_model("llama"), LAYOUT, taps=(-1,), rows=24, style=STYLE)
    starts = [{c.tokens.tolist()[len(opening)] for c in write(s, 0)} for s in (mute, plain)]
    assert not starts[0] & {30, 32} or starts[0] == starts[1]


def test_greedy_answers_are_the_targets_own() -> None:
    """The head is to follow plain decoding, so what it learns from has to be plain decoding."""
    model = make_model("llama")
    style = Style(lengths=(48,), system=8, user=6, assistant=64, temperatures=(0.0,))
    for conversation in write(Synthesis(model, LAYOUT, taps=(-1,), rows=4, style=style), number=0):
        tokens = conversation.tokens.long()
        start = tokens.tolist().index(STOP) + len(LAYOUT.after[Role.USER])
        picks = model(input_ids=tokens[None]).logits[0].argmax(-1)
        end = next((i for i in range(start, len(tokens)) if tokens[i] == STOP), len(tokens))
        looped = next((i for i in range(start, end) if loops(tokens[start:i].tolist())), end)
        assert tokens[start : min(end, looped)].tolist() == picks[start - 1 : min(end, looped) - 1].tolist()


def test_a_seed_repeats_a_batch_and_another_does_not() -> None:
    synthesis = Synthesis(make_model("llama"), LAYOUT, taps=(-1,), rows=4, style=STYLE)
    first, again, other = (torch.stack([c.tokens for c in write(synthesis, 0, s)]) for s in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_an_interrupted_batch_keeps_what_is_written() -> None:
    synthesis = Synthesis(make_model("llama"), LAYOUT, taps=(-1,), rows=4, style=STYLE)
    batch = synthesis.batch(0)
    steps = iter(batch)
    written = [next(steps) for _ in range(10)]
    steps.close()
    assert written == [4 * (3 + i) for i in range(10)]
    part = batch.conversations()
    assert [len(c.tokens) for c in part] == [12] * 4
    assert all(c.features is not None and len(c.features) == 12 for c in part)
    assert torch.equal(part[0].tokens, write(synthesis, 0)[0].tokens[:12])
    assert synthesis.model.config._attn_implementation == "sdpa"


def test_few_tokens_need_few_rows() -> None:
    batch = Synthesis(make_model("llama"), LAYOUT, taps=(-1,), rows=32, style=STYLE).batch(0, tokens=100)
    assert batch.rows == 2


def test_first_words_skip_the_longest_opening() -> None:
    synthesis = Synthesis(make_model("llama"), LAYOUT, taps=(-1,), rows=1, style=STYLE)
    assert synthesis.first_words(torch.tensor([1, 2, 3, 50, 51])) == (50, 51)
    assert synthesis.first_words(torch.tensor([1, 4, 50, 51])) == (50, 51)


@pytest.mark.parametrize(
    ("turn", "looping"),
    [
        ([1] * 48, True),
        ([*range(16)] * 3, True),
        ([*range(20)] * 3, False),  # a period of more than a third
        ([1] * 47, False),
        ([*range(48)], False),
        ([9, *([1, 2] * 24)], True),
        ([*([1, 2] * 24), 9], False),
    ],
)
def test_loops(turn: list[int], looping: bool) -> None:
    assert loops(turn) is looping
