"""The corpus on disk: what is stored and held out, its batches, and the draft vocabulary counted from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine import StockTarget
from engine.training import Conversation, Corpus, Synthesis, draft_vocabulary, share_covered
from engine.training.batches import load_batch, plan_batches
from tests.engine.tiny import make_model
from tests.engine.tiny_training import LAYOUT, STYLE, write


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    conversations = [
        Conversation(torch.arange(n, dtype=torch.int32) + n, torch.full((n, 3), float(n))) for n in (4, 2, 7)
    ]
    corpus = Corpus(tmp_path)
    corpus.add(0, conversations)
    corpus.add(2, conversations[:1])
    (tmp_path / "00001.partial").write_bytes(b"cut short")
    again = Corpus(tmp_path)
    assert again.tokens == corpus.tokens == 17
    assert again.next_number() == 1
    for place, conversation in zip(again.places[0], conversations, strict=True):
        tokens, features = again.read(place)
        assert torch.equal(tokens, conversation.tokens)
        assert torch.equal(features, conversation.features)
    assert [t.tolist() for t in again.conversations()][-1] == [4, 5, 6, 7]


def test_features_can_be_computed_later_and_are_the_same(tmp_path: Path) -> None:
    """Deleting a feature file costs time, not the run."""
    model = make_model("llama")
    conversations = write(Synthesis(model, LAYOUT, taps=(-1,), rows=3, style=STYLE), 0)
    corpus = Corpus(tmp_path)
    corpus.add(0, [Conversation(c.tokens) for c in conversations])
    assert corpus.without_features() == [0]
    corpus.compute_features(StockTarget(model, (-1,)), 0)
    assert corpus.without_features() == []
    for place, conversation in zip(corpus.places[0], conversations, strict=True):
        torch.testing.assert_close(corpus.read(place)[1], conversation.features, rtol=1e-3, atol=1e-3)


def test_held_out_conversations_are_never_trained_on(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    corpus.add(0, [Conversation(torch.zeros(3, dtype=torch.int32))] * 70)
    training, held_out = corpus.split()
    assert len(held_out) == 2
    assert not set(training) & set(held_out)
    assert len(training) + len(held_out) == 70


def test_batches_hold_everything_once_and_stay_within_their_size(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    lengths = torch.randint(2, 40, (100,), generator=torch.Generator().manual_seed(0)).tolist()
    corpus.add(0, [Conversation(torch.ones(n, dtype=torch.int32), torch.ones(n, 2)) for n in lengths])
    batches = plan_batches(corpus.places[0], size=120, longest=32, seed=1)
    assert sorted(p.start for b in batches for p in b) == sorted(p.start for p in corpus.places[0])
    for places in batches:
        batch = load_batch(corpus, places, longest=32)
        assert batch.tokens.numel() <= 120
        assert batch.real.sum(1).tolist() == [min(p.length, 32) for p in places]
        assert batch.pairs == sum(min(p.length, 32) - 1 for p in places)
        assert torch.equal(batch.tokens > 0, batch.real)  # padding only where it says so
    assert batches != plan_batches(corpus.places[0], size=120, longest=32, seed=2)


def test_draft_vocabulary_is_the_most_frequent_ids(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    corpus.add(0, [Conversation(torch.tensor([5, 5, 5, 2, 2, 9], dtype=torch.int32))])
    ids = draft_vocabulary(corpus, 12, 2)
    assert ids.tolist() == [2, 5]
    assert share_covered(corpus, ids) == pytest.approx(5 / 6)
    assert draft_vocabulary(corpus, 12, 4).tolist() == [0, 2, 5, 9]  # ties in order
