"""What the training tests share: a chat layout, a style of short turns, and tiny draft networks."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from engine import StockTarget, Target, load_draft_head
from engine.drafters.head_layer import HeadShape
from engine.drafters.shared_llama import SharedLlama
from engine.training import (
    ChatLayout,
    Conversation,
    DraftModelNetwork,
    DraftNetwork,
    Eagle3Network,
    EagleNetwork,
    HydraNetwork,
    MedusaNetwork,
    Role,
    Style,
    Synthesis,
    write_head,
)
from tests.engine.tiny import HIDDEN

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
    """The conversations of one whole batch."""
    batch = synthesis.batch(number, seed)
    for _ in batch:
        pass
    return batch.conversations()


def make_network(target: StockTarget, kind: str = "eagle2", rows: Tensor | None = None) -> DraftNetwork:
    """A network as training begins with it, seeded."""
    torch.manual_seed(0)
    rows = target.lm_head.weight if rows is None else rows
    if kind == "eagle3":
        return Eagle3Network(SHAPE, HIDDEN, INNER, target.model.config.num_hidden_layers, rows)
    if kind == "medusa":
        return MedusaNetwork(heads=4, hidden=HIDDEN)
    if kind == "hydra":
        return HydraNetwork(heads=4, hidden=HIDDEN)
    if kind == "draft-model":
        network = DraftModelNetwork(SHAPE, HIDDEN, INNER, layers=2)
        network.begin_as(target.model)
        return network
    return EagleNetwork(SHAPE, HIDDEN, INNER)


def load_shared(folder: Path, name: str, target: Target) -> SharedLlama:
    """Random layers over the target's embedding; that of some tiny models has a draft vocabulary."""
    torch.manual_seed(0)
    ids = torch.arange(0, target.vocabulary, 2 if name in ("llama-tied", "qwen3") else 1)
    network = DraftModelNetwork(SHAPE, HIDDEN, INNER, layers=2)
    write_head(folder, network, ids, target.vocabulary, 2048)
    loaded = load_draft_head(folder, target, name)
    assert isinstance(loaded, SharedLlama)
    return loaded
