"""Training: what is written, stored, unrolled and minimised, and that a good head comes out of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

from engine import Eagle2, Engine, GenerationSettings, Round, StockTarget, load_eagle_head
from engine.drafters.eagle_head import HeadShape
from engine.training import (
    ChatLayout,
    Conversation,
    Corpus,
    DraftNetwork,
    Eagle3Network,
    EagleNetwork,
    Objective,
    Role,
    Style,
    Synthesis,
    Trained,
    Trainer,
    TrainingSettings,
    Validated,
    draft_vocabulary,
    share_covered,
    write_head,
)
from engine.training.batches import Batch, load_batch, plan_batches
from engine.training.loss import SoftCrossEntropy
from engine.training.start import start_linear
from engine.training.synthesis import loops
from tests.engine.tiny import HIDDEN, MODELS, make_model

SHAPE = HeadShape(heads=4, kv_heads=2, head_dim=8, rms_norm_eps=1e-6, rope_theta=10000.0)
INNER = 64
STOP = 7
LAYOUT = ChatLayout(
    openings=((Role.USER, (1, 2, 3)), (Role.SYSTEM, (1, 4))),
    after={Role.SYSTEM: (STOP, 5), Role.USER: (STOP, 6), Role.ASSISTANT: (STOP, 2, 3)},
    stop_ids=frozenset({STOP}),
)
STYLE = Style(lengths=(64,), system=8, user=12, assistant=16)


def write(synthesis: Synthesis, number: int, seed: int = 0) -> list[Conversation]:
    batch = synthesis.batch(number, seed)
    for _ in batch:
        pass
    return batch.conversations()


def make_network(target: StockTarget, kind: str = "eagle2", rows: Tensor | None = None) -> DraftNetwork:
    torch.manual_seed(0)
    rows = target.lm_head.weight if rows is None else rows
    if kind == "eagle3":
        return Eagle3Network(SHAPE, HIDDEN, INNER, target.model.config.num_hidden_layers, rows)
    return EagleNetwork(SHAPE, HIDDEN, INNER)


# --- self-synthesis


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


# --- the corpus


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


# --- the unrolled network


def _head_and_network(name: str, tmp_path: Path, kind: str) -> tuple[StockTarget, DraftNetwork, object]:
    model = make_model(name, layers=8 if kind == "eagle3" else None)
    network = make_network(target := StockTarget(model), kind)
    random = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in network.parameters():  # large, so that every part of the context matters
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=random) + (parameter.dim() == 1))
            parameter.copy_(parameter.bfloat16())  # as it is stored
    write_head(tmp_path, network, SHAPE, torch.arange(target.vocabulary), target.vocabulary, 2048)
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
        embeddings = target.embedding(tokens[None, 1:])
        unrolled = network(embeddings, features[None, :-1], steps=4)
        true = head.fuse(features[:-1, : HIDDEN * len(network.taps)])
        for first in (3, 7):  # catch up to here, then draft
            positions = torch.arange(first + 1)
            hidden = head.forward(
                tokens[1 : first + 2], true[: first + 1], positions, 0, positions <= positions[:, None]
            )[-1:]
            for step in range(4):
                pair = first + step
                if step:
                    visible = torch.ones(1, pair + 1, dtype=torch.bool)
                    ids = tokens[pair + 1 : pair + 2]
                    hidden = head.forward(ids, hidden, torch.tensor([pair]), pair, visible)
                torch.testing.assert_close(unrolled[step][0, pair][None], hidden, rtol=1e-3, atol=1e-3)
                scored = network.scored(hidden) @ network.lm_weight(target.lm_head.weight).T
                torch.testing.assert_close(
                    scored.log_softmax(-1), head.log_probabilities(hidden), rtol=2e-2, atol=2e-2
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


def _trainer(toy: StockTarget, corpus: Corpus, folder: Path, pairs: int, **settings: object) -> Trainer:
    chosen = TrainingSettings(pairs, **{"batch": 512, "validations": 2, "learning_rate": 0.01, **settings})
    folder.mkdir(exist_ok=True)
    return Trainer(make_network(toy), toy.embedding, toy.lm_head.weight.clone(), corpus, chosen, folder)


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
    passed_on = network(target.embedding(batch.tokens[:, 1:]), batch.features[:, :-1], steps=1)[0]
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


def _tau(target: StockTarget, folder: Path) -> float:
    """Over a few greedy replies, whose text has to be that of plain decoding."""
    head = load_eagle_head(folder, target, "toy")
    engine = Engine(target, {"eagle2": Eagle2(head, nodes=10, depth=4, beam=4)})
    rounds = new = 0
    for first in range(8):
        prompt = [*LAYOUT.openings[0][1], 20 + first, *LAYOUT.after[Role.USER]]
        texts = []
        for method in ("none", "eagle2"):
            events = engine.generate(prompt, GenerationSettings(max_new_tokens=48), method)
            done = [event for event in events if isinstance(event, Round)]
            texts.append([token for event in done for token in event.new])
            engine.reset()
        assert texts[0] == texts[1]
        rounds += len(done) - 1
        new += len(texts[1]) - 1
    return new / rounds


def test_a_trained_head_beats_a_floor_of_acceptance(
    toy: StockTarget, toy_corpus: Corpus, tmp_path: Path
) -> None:
    """The whole way: conversations, training, the published layout, strict loading, lossless drafting."""
    trainer = _trainer(toy, toy_corpus, tmp_path / "run", 60_000, regression=1.0, validations=10)
    looks = [event for event in trainer.run() if isinstance(event, Validated)]
    trainer.load_best()
    write_head(tmp_path, trainer.network, SHAPE, torch.arange(toy.vocabulary), toy.vocabulary, toy.context)
    tau = _tau(toy, tmp_path)
    write_head(tmp_path, make_network(toy), SHAPE, torch.arange(toy.vocabulary), toy.vocabulary, toy.context)
    untrained = _tau(toy, tmp_path)
    assert tau > 1.8
    assert tau > untrained + 0.3
    assert sum(looks[-1].measured.loss) < sum(looks[0].measured.loss)


def test_a_head_with_a_draft_vocabulary_loads(toy: StockTarget, tmp_path: Path) -> None:
    ids = torch.arange(0, toy.vocabulary, 3)
    write_head(tmp_path, make_network(toy), SHAPE, ids, toy.vocabulary, toy.context)
    head = load_eagle_head(tmp_path, toy, "toy")
    assert head.token_ids(torch.arange(len(ids))).tolist() == ids.tolist()
