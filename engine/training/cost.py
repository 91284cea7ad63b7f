"""What training will take: speeds measured in seconds, sizes counted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.drafters.head_layer import HeadShape
from engine.target import StockTarget
from engine.training.batches import Batch
from engine.training.network import DraftNetwork
from engine.training.objective import Objective
from engine.training.settings import TrainingSettings
from engine.training.synthesis import Synthesis

TRIED = 6  # forwards of a batch of conversations
BYTES_PER_STATE = 12  # of a parameter in training: weight, gradient and momentum in fp32
BYTES_KEPT = 24  # of a parameter on disk: the state, once more while it is replaced, best weights, the head
WORKING = 1_000_000_000  # bytes for intermediate results and the libraries


@dataclass(frozen=True)
class Speeds:
    """Per second."""

    written: float  # tokens of conversations
    trained: float  # pairs


def measure_speeds(
    synthesis: Synthesis,
    network: DraftNetwork,
    embedding: nn.Embedding,
    target_head: Tensor,
    settings: TrainingSettings,
    draft_vocab: Tensor,
) -> Speeds:
    """Try both stages, the second as `Objective` does it. The network's weights stay as they are.

    Conversations get slower as they get longer, so that writing them takes somewhat more than measured here.
    """
    objective = Objective(network.to(target_head.device), embedding, target_head, settings, draft_vocab)
    batch = _made_up_batch(embedding, network, settings, draft_vocab)
    trials = _train(objective, batch, network.steps(settings.steps))
    return Speeds(_rate(iter(synthesis.batch(0)), TRIED), _rate(trials, 2))


@dataclass(frozen=True)
class Sizes:
    """Bytes, about."""

    token: int  # of each token on disk, with its features
    kept: int  # on disk beside them: states and weights
    memory: int  # at its highest


def expected_sizes(
    target: StockTarget, synthesis: Synthesis, network: DraftNetwork, shape: HeadShape
) -> Sizes:
    """For a head of `shape`, which has the kv heads of a target's own layer."""
    config = target.model.config.get_text_config()
    number = target.lm_head.weight.element_size()
    features = len(synthesis.taps) * config.hidden_size * number
    cached = 2 * config.num_hidden_layers * shape.kv_heads * shape.head_dim * number
    written = synthesis.rows * max(synthesis.style.lengths) * (features + cached)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in target.model.parameters())
    parameters = sum(parameter.numel() for parameter in network.parameters())
    memory = weights + max(written, BYTES_PER_STATE * parameters) + WORKING
    return Sizes(token=4 + features, kept=BYTES_KEPT * parameters, memory=memory)


def _made_up_batch(
    embedding: nn.Embedding, network: DraftNetwork, settings: TrainingSettings, draft_vocab: Tensor
) -> Batch:
    rows = max(1, settings.batch // settings.longest)
    width = embedding.embedding_dim * len(network.taps) + (
        embedding.embedding_dim if len(network.taps) > 1 else 0
    )
    return Batch(
        draft_vocab[torch.randint(len(draft_vocab), (rows, settings.longest))],
        torch.randn(rows, settings.longest, width),
        torch.ones(rows, settings.longest, dtype=torch.bool),
    )


def _train(objective: Objective, batch: Batch, steps: int) -> Iterator[int]:
    """Pairs trained on so far."""
    pairs = 0
    while True:
        objective(batch, steps)[0].backward()
        objective.network.zero_grad()
        pairs += batch.pairs
        yield pairs


def _rate(counts: Iterator[int], times: int) -> float:
    """How fast a count grows, per second, after a first time that warms up."""
    first, started = next(counts), time.perf_counter()
    last = first
    for _ in range(times):
        last = next(counts)
    return (last - first) / (time.perf_counter() - started)
