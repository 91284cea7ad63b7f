"""A draft model that shares the target's embedding: trained as it drafts, saved without what is shared."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from engine import (
    CheckpointError,
    Engine,
    GenerationSettings,
    LeanTarget,
    SampledDraftModel,
    StockTarget,
    load_draft_head,
    recognise_head,
    shares_embedding,
)
from engine.drafters.shared_llama import SharedLlama
from engine.training import Corpus, Synthesis, write_head
from engine.training.batches import load_batch
from engine.training.objective import Objective
from engine.training.settings import TrainingSettings
from engine.training.start import start_linear
from tests.engine.stubs import rounds
from tests.engine.tiny import make_model
from tests.engine.tiny_training import LAYOUT, STYLE, load_shared, make_network, write


@pytest.fixture(scope="module")
def target() -> StockTarget:
    """A tiny Llama."""
    return StockTarget(make_model("llama"), (-1,))


def test_training_drafting_and_transformers_agree(target: StockTarget, tmp_path: Path) -> None:
    """Catches a mask, a position, a norm or a name that is another one in training, drafting or a Llama."""
    network = make_network(target, "draft-model").bfloat16().float()
    write_head(tmp_path, network, torch.arange(target.vocabulary), target.vocabulary, 2048)
    small = load_draft_head(tmp_path, target, "tiny")
    assert isinstance(small, SharedLlama)
    tokens = torch.randint(target.vocabulary, (9,), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        states = network(target.embedding(tokens[None]), torch.zeros(1, 8, 32), steps=1)[0]
        trained = states[0] @ target.lm_head.weight.T
        first = list(small.extend(tokens[:4].tolist()))[-1].logits
        rest = [list(small.extend([token]))[-1].logits for token in tokens[4:].tolist()]
        config = LlamaConfig(**{**target.model.config.to_dict(), "num_hidden_layers": 2})
        stock = LlamaForCausalLM(config)
        stock.load_state_dict({**target.model.state_dict(), **network.state_dict()})
        expected = stock(tokens[None]).logits[0]
    torch.testing.assert_close(torch.cat((first, *rest)), expected[3:], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(trained, expected[1:], rtol=1e-3, atol=1e-3)


def test_it_is_saved_without_the_embedding(target: StockTarget, tmp_path: Path) -> None:
    """Catches a file that carries what is the target's, or is taken for another kind of head."""
    write_head(tmp_path, make_network(target, "draft-model"), torch.arange(40), target.vocabulary, 2048)
    names = load_file(tmp_path / "model.safetensors").keys()
    assert not any("embed" in name or "lm_head" in name for name in names)
    assert "draft_vocab" in names
    assert shares_embedding(tmp_path)
    assert recognise_head(tmp_path) == "draft-model"


def test_a_whole_model_is_none(target: StockTarget, tmp_path: Path) -> None:
    """Catches a causal LM that is opened as layers without an embedding."""
    target.model.save_pretrained(tmp_path)
    assert not shares_embedding(tmp_path)
    assert not shares_embedding(tmp_path / "nowhere")


def test_layers_of_another_width_are_refused(target: StockTarget, tmp_path: Path) -> None:
    """Catches a draft model of another target that fails in its first product."""
    write_head(tmp_path, make_network(target, "draft-model"), torch.arange(40), target.vocabulary, 2048)
    other = StockTarget(make_model("llama-tied"))
    with pytest.raises(CheckpointError, match="vocabulary of 97"):
        load_draft_head(tmp_path, other, "other")


def test_the_linear_start_is_better_than_the_layers_alone(tmp_path: Path) -> None:
    """Catches a start solved for another place, or for a state that the norm does not make of it."""
    target = StockTarget(make_model("llama", seed=4, spread=0.15, layers=6), (-1,))
    corpus = Corpus(tmp_path)
    corpus.add(0, write(Synthesis(target.model, LAYOUT, (-1,), rows=64, style=STYLE), 0))
    batch, losses = load_batch(corpus, corpus.places[0], 64), []
    for solve in (False, True):
        network = make_network(target, "draft-model")
        if solve:
            start_linear(network, target.embedding, corpus, corpus.places[0], longest=64)
        objective = Objective(network, target.embedding, target.lm_head.weight, TrainingSettings(1))
        losses.append(objective(batch, 1)[1].loss[0])
    assert losses[1] < losses[0] - 0.1


@pytest.mark.parametrize("how", [{"temperature": 1.0}, {"temperature": 0.8, "top_p": 0.9, "min_p": 0.01}])
def test_textbook_sampling_with_a_draft_vocabulary(how: dict[str, float], tmp_path: Path) -> None:
    """Catches a token outside the draft vocabulary that is drafted, or one that can never be committed."""
    target = LeanTarget(make_model("llama-tied", spread=0.1))
    small = load_shared(tmp_path, "llama-tied", target)
    engine = Engine(target, {"sampled": SampledDraftModel(small, target.vocabulary, depth=3)})
    settings = GenerationSettings(max_new_tokens=60, **how)
    drafted, committed = set(), set()
    for one in rounds(engine, [5, 6, 7], settings, "sampled"):
        drafted |= set(one.tree.host.tokens[1:])
        committed |= set(one.new)
    assert drafted
    assert all(token % 2 == 0 for token in drafted)
    assert any(token % 2 for token in committed)


def test_borrowed_conversations_are_only_read(target: StockTarget, tmp_path: Path) -> None:
    """Catches features that are written into the lender's folder, or computed although they are there."""
    lender, own = Corpus(tmp_path / "lender"), Corpus(tmp_path / "own")
    for number in range(3):
        lender.add(number, write(Synthesis(target.model, LAYOUT, (-1,), rows=4, style=STYLE), number))
    lost = tmp_path / "lender" / "features_-1" / "00001.safetensors"
    expected = lender.read(lender.places[1][2])
    lost.unlink()
    own.borrow(tmp_path / "lender", lender.tokens // 2)
    assert sorted(own.places) == [0, 1]
    assert own.without_features() == [1]
    before = sorted((tmp_path / "lender").rglob("*"))
    own.compute_features(target, 1)
    assert sorted((tmp_path / "lender").rglob("*")) == before
    assert own.without_features() == []
    for found, kept in zip(own.read(own.places[1][2]), expected, strict=True):
        torch.testing.assert_close(found, kept, rtol=1e-3, atol=1e-3)
