"""What the training tests share: a chat layout, a style of short turns, and tiny draft networks."""

from __future__ import annotations

import torch
from torch import Tensor

from engine import StockTarget
from engine.drafters.head_layer import HeadShape
from engine.training import (
    ChatLayout,
    Conversation,
    DraftNetwork,
    Eagle3Network,
    EagleNetwork,
    HydraNetwork,
    MedusaNetwork,
    Role,
    Style,
    Synthesis,
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
    return EagleNetwork(SHAPE, HIDDEN, INNER)
