"""Training a draft head: the unrolled network, the loss, and that a run leaves a good head."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from engine import (
    Drafter,
    Eagle2,
    Engine,
    GenerationSettings,
    Hydra,
    HydraHeads,
    Medusa,
    MedusaHeads,
    Round,
    StockTarget,
    load_draft_head,
    load_eagle_head,
    medusa_tree,
)
from engine.training import (
    Corpus,
    DraftNetwork,
    Objective,
    Role,
    Style,
    Synthesis,
    Trained,
    Trainer,
    TrainingSettings,
    Validated,
    write_head,
)
from engine.training.batches import Batch, load_batch
from engine.training.loss import SoftCrossEntropy
from engine.training.start import start_linear
from tests.engine.tiny import HIDDEN, make_model
from tests.engine.tiny_training import LAYOUT, STYLE, make_network, write

# --- the unrolled network


def _head_and_network(name: str, tmp_path: Path, kind: str) -> tuple[StockTarget, DraftNetwork, object]:
    model = make_model(name, layers=8 if kind == "eagle3" else None)
    network = make_network(target := StockTarget(model), kind)
    random = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in network.parameters():  # large, so that every part of the context matters
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=random) + (parameter.dim() == 1))
            parameter.copy_(parameter.bfloat16())  # as it is stored
    write_head(tmp_path, network, torch.arange(target.vocabulary), target.vocabulary, 2048)
    return target, network, load_eagle_head(tmp_path, target, name)


@pytest.mark.parametrize("kind", ["eagle2", "eagle3"])
@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_each_step_is_what_drafting_computes(name: str, kind: str, tmp_path: Path) -> None:
    """Train and inference must agree: positions, the shift of features, which keys a step may see, the norm.

    Step j at pair i has to equal the drafter's output after catching up to pair i - j and then following the
    true tokens for j levels.
    """
    target, network, head = _head_and_network(name, tmp_path, kind)
    target.taps = (*network.taps, -1) if kind == "eagle3" else network.taps
    tokens = torch.randint(target.vocabulary, (12,), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        features = torch.cat([chunk.features for chunk in target.extend(tokens.tolist())])
        embeddings = target.embedding(tokens[None])
        unrolled = network(embeddings, features[None, :-1], steps=4)
        true = head.fuse(features[:-1, : HIDDEN * len(network.taps)])
        for first in (3, 7):  # catch up to here, then draft
            positions = torch.arange(first + 1)
            causal, cache = positions <= positions[:, None], head.layer.at(0, first + 1)
            hidden = head.forward(tokens[1 : first + 2], true[: first + 1], positions, cache, causal)[-1:]
            for step in range(4):
                pair = first + step
                if step:
                    visible = torch.ones(1, pair + 1, dtype=torch.bool)
                    ids = tokens[pair + 1 : pair + 2]
                    cache = head.layer.at(pair, 1)
                    hidden = head.forward(ids, hidden, torch.tensor([pair]), cache, visible)
                torch.testing.assert_close(unrolled[step][0, pair][None], hidden, rtol=1e-3, atol=1e-3)
                scored = network.scored(hidden) @ network.lm_weight(target.lm_head.weight).T
                torch.testing.assert_close(
                    scored.log_softmax(-1), head.logits(hidden).log_softmax(-1), rtol=2e-2, atol=2e-2
                )


@pytest.mark.parametrize("own_head", [False, True])
def test_the_loss_and_its_gradients_are_those_of_autograd(own_head: bool) -> None:
    """The closed form is easy to get wrong by a weight or a transposition."""
    random = torch.Generator().manual_seed(0)
    outputs = torch.randn(2, 300, 16, generator=random, requires_grad=True)
    features, rows = (torch.randn(n, 16, generator=random) for n in (300, 40))
    head = torch.randn(40, 16, generator=random, requires_grad=own_head) if own_head else rows
    weights = torch.rand(2, 300, generator=random) * (torch.rand(2, 300, generator=random) > 0.2)
    total, losses, hits = SoftCrossEntropy.apply(outputs, features, head, rows, weights)
    (3 * total).backward()
    found = [x.grad for x in (outputs, head) if x.requires_grad]
    for x in (outputs, head):
        x.grad = None
    p = (features @ rows.T).softmax(-1)
    each = F.cross_entropy((outputs @ head.T).flatten(0, 1), p.repeat(2, 1), reduction="none").view(2, 300)
    (3 * (each * weights).sum()).backward()
    expected = [x.grad for x in (outputs, head) if x.requires_grad]
    torch.testing.assert_close(total, (each * weights).sum())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    counted = weights > 0
    best = (outputs @ head.T).argmax(-1) == p.argmax(-1)
    for step in range(2):
        torch.testing.assert_close(losses[step], each[step][counted[step]].mean())
        torch.testing.assert_close(hits[step], best[step][counted[step]].float().mean())


def test_padding_teaches_nothing() -> None:
    """Two batches that differ only in their padding give the same loss and the same gradients."""
    target = StockTarget(make_model("llama"))
    network = make_network(target)
    objective = Objective(
        network, target.embedding, target.lm_head.weight, TrainingSettings(1, regression=0.5)
    )
    random = torch.Generator().manual_seed(2)
    tokens = torch.randint(target.vocabulary, (2, 9), generator=random)
    features = torch.randn(2, 9, HIDDEN, generator=random)
    real = torch.arange(9) < torch.tensor([[9], [5]])
    results = []
    for junk in (0.0, 3.0):
        filled = torch.where(real[..., None], features, junk)
        network.zero_grad()
        total, measured = objective(Batch(torch.where(real, tokens, int(junk)), filled, real), steps=3)
        total.backward()
        results.append((total.item(), measured, [p.grad.clone() for p in network.parameters()]))
    assert results[0][0] == pytest.approx(results[1][0])
    assert results[0][1].loss == pytest.approx(results[1][1].loss)
    torch.testing.assert_close(results[0][2], results[1][2])


@pytest.mark.parametrize("kind", ["eagle2", "medusa", "eagle3", "draft-model"])
def test_what_a_head_learns_to_propose(kind: str) -> None:
    """Catches one that drafts with the text's tokens and never learnt to, or learnt what it cannot say."""
    target = StockTarget(make_model("llama"), (-1,))
    drafted = torch.arange(0, target.vocabulary, 4)
    tokens = torch.randint(target.vocabulary, (2, 9), generator=torch.Generator().manual_seed(2))
    network = make_network(target, kind, target.lm_head.weight[drafted])
    features = torch.randn(2, 9, HIDDEN * (len(network.taps) + (kind == "eagle3")))
    batch, joined = Batch(tokens, features, torch.ones(2, 9).bool()), torch.cat((drafted, tokens.flatten()))
    grows = kind in ("eagle2", "medusa")

    def loss(ids: torch.Tensor) -> tuple[float, ...]:
        objective = Objective(network, target.embedding, target.lm_head.weight, TrainingSettings(1), ids)
        return objective(batch, 2)[1].loss

    found = loss(drafted)
    network.proposes_text = False
    assert found == pytest.approx(loss(joined.unique() if grows else drafted))
    assert (found == pytest.approx(loss(drafted))) is not grows


# --- a run


@pytest.fixture(scope="module")
def toy() -> StockTarget:
    """Two layers, tame enough to be guessed."""
    return StockTarget(make_model("llama", seed=4, spread=0.15), (-1,))


@pytest.fixture(scope="module")
def toy_corpus(toy: StockTarget, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    corpus = Corpus(tmp_path_factory.mktemp("toy"))
    style = Style(lengths=(96,), system=8, user=8, assistant=32, temperatures=(0.0, 0.7))
    synthesis = Synthesis(toy.model, LAYOUT, taps=(-1,), rows=64, style=style)
    for number in range(4):
        corpus.add(number, write(synthesis, number))
    return corpus


def _trainer(
    toy: StockTarget, corpus: Corpus, folder: Path, pairs: int, kind: str = "eagle2", **settings: object
) -> Trainer:
    chosen = TrainingSettings(pairs, **{"batch": 512, "validations": 2, "learning_rate": 0.01, **settings})
    folder.mkdir(exist_ok=True)
    network, rows = make_network(toy, kind), toy.lm_head.weight.clone()
    return Trainer(network, toy.embedding, rows, corpus, chosen, folder)


def test_the_linear_start_is_better_than_small_weights(toy: StockTarget, toy_corpus: Corpus) -> None:
    places, held_out = toy_corpus.split()
    batch = load_batch(toy_corpus, held_out, 96)
    losses = []
    for solve in (False, True):
        network = make_network(toy)
        if solve:
            start_linear(network, toy.embedding, toy_corpus, places, longest=96)
        objective = Objective(network, toy.embedding, toy.lm_head.weight, TrainingSettings(1))
        losses.append(objective(batch, 1)[1].loss[0])
    assert losses[1] < losses[0] - 0.1


def test_an_eagle3_head_starts_from_the_feature_of_the_same_place(tmp_path: Path) -> None:
    """Its own outputs skip `fc`: were `fc` to look ahead, the layer would have to do two different things."""
    model = make_model("llama", layers=8)
    target = StockTarget(model)
    network = make_network(target, "eagle3")
    corpus = Corpus(tmp_path, (*network.taps, -1))
    corpus.add(0, write(Synthesis(model, LAYOUT, (*network.taps, -1), rows=32, style=STYLE), 0))
    start_linear(network, target.embedding, corpus, corpus.places[0], longest=64)
    batch = load_batch(corpus, corpus.places[0], 64)
    final, read = batch.features[..., -HIDDEN:], network.read(batch.features)
    error = (read - final).square().mean()
    assert error < 0.7 * final.var()
    assert error < (read[:, :-1] - final[:, 1:]).square().mean()
    passed_on = network(target.embedding(batch.tokens), batch.features[:, :-1], steps=1)[0]
    torch.testing.assert_close(passed_on, read[:, :-1])


def test_a_stopped_run_ends_where_an_uninterrupted_one_does(
    toy: StockTarget, toy_corpus: Corpus, tmp_path: Path
) -> None:
    """Lost optimiser state, a repeated batch or a second warm-up would show in the weights."""
    whole = _trainer(toy, toy_corpus, tmp_path / "whole", 6000)
    events = list(whole.run())
    for stop_after in (1, 4, 3):
        trainer = _trainer(toy, toy_corpus, tmp_path / "parts", 6000)
        run = trainer.run()
        for _ in range(stop_after):
            next(run)
        run.close()
    rest = _trainer(toy, toy_corpus, tmp_path / "parts", 6000)
    later = list(rest.run())
    for a, b in zip(whole.network.parameters(), rest.network.parameters(), strict=True):
        assert torch.equal(a, b)
    assert [e.pairs for e in later] == [e.pairs for e in events][-len(later) :]
    looks = [e for e in events if isinstance(e, Validated)]
    assert len(looks) == 2
    assert looks[-1].best


def test_steps_report_their_progress(toy: StockTarget, toy_corpus: Corpus, tmp_path: Path) -> None:
    steps = [e for e in _trainer(toy, toy_corpus, tmp_path, 3000).run() if isinstance(e, Trained)]
    assert all(a.pairs < b.pairs for a, b in pairwise(steps))
    assert steps[-1].pairs == steps[-1].of == 3000
    assert all(len(e.measured.loss) == len(e.measured.agreement) == 3 for e in steps)
    assert steps[-1].learning_rate < steps[1].learning_rate


def _drafter(folder: Path, target: StockTarget) -> Drafter:
    """Of whatever head there is, with ten nodes."""
    head = load_draft_head(folder, target, "toy")
    if isinstance(head, MedusaHeads):
        return Medusa(head, medusa_tree(10, 4))
    if isinstance(head, HydraHeads):
        return Hydra(head, medusa_tree(10, 4))
    return Eagle2(head, nodes=10, depth=4, beam=4)


def _tau(target: StockTarget, folder: Path) -> float:
    """Over a few greedy replies, whose text has to be that of plain decoding."""
    engine = Engine(target, {"head": _drafter(folder, target)})
    rounds = new = 0
    for first in range(8):
        prompt = [*LAYOUT.openings[0][1], 20 + first, *LAYOUT.after[Role.USER]]
        texts = []
        for method in ("none", "head"):
            events = engine.generate(prompt, GenerationSettings(max_new_tokens=48), method)
            done = [event for event in events if isinstance(event, Round)]
            texts.append([token for event in done for token in event.new])
            engine.reset()
        assert texts[0] == texts[1]
        rounds += len(done) - 1
        new += len(texts[1]) - 1
    return new / rounds


@pytest.mark.parametrize(("kind", "floor"), [("eagle2", 1.8), ("medusa", 1.4), ("hydra", 1.6)])
def test_a_trained_head_beats_a_floor_of_acceptance(
    toy: StockTarget, toy_corpus: Corpus, tmp_path: Path, kind: str, floor: float
) -> None:
    """The whole way: conversations, training, the published layout, strict loading, lossless drafting."""
    weight = 1.0 if kind == "eagle2" else 0.0
    trainer = _trainer(toy, toy_corpus, tmp_path / "run", 60_000, kind, regression=weight, validations=10)
    looks = [event for event in trainer.run() if isinstance(event, Validated)]
    trainer.load_best()
    write_head(tmp_path, trainer.network, torch.arange(toy.vocabulary), toy.vocabulary, toy.context)
    tau = _tau(toy, tmp_path)
    write_head(tmp_path, make_network(toy, kind), torch.arange(toy.vocabulary), toy.vocabulary, toy.context)
    untrained = _tau(toy, tmp_path)
    assert tau > floor
    assert tau > untrained + 0.3
    assert sum(looks[-1].measured.loss) < sum(looks[0].measured.loss)


def test_a_head_with_a_draft_vocabulary_loads(toy: StockTarget, tmp_path: Path) -> None:
    ids = torch.arange(0, toy.vocabulary, 3)
    write_head(tmp_path, make_network(toy), ids, toy.vocabulary, toy.context)
    head = load_eagle_head(tmp_path, toy, "toy")
    assert head.draft_vocab.tolist() == ids.tolist()
