"""An untrained head for any target shaped like a Llama."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagle_chat.errors import UsageError
from eagle_chat.training_plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from engine import StockTarget
    from engine.drafters.head_layer import HeadShape
    from engine.training import DraftNetwork


def head_shape(target: StockTarget) -> tuple[HeadShape, int]:
    """The shape of a head like one of the target's own layers, and the width of its MLP."""
    from engine.drafters.head_layer import HeadShape

    config = target.model.config.get_text_config()
    try:
        heads = config.num_attention_heads
        rope = getattr(config, "rope_parameters", None) or {}
        shape = HeadShape(
            heads=heads,
            kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            rms_norm_eps=float(getattr(config, "rms_norm_eps", 1e-6)),
            rope_theta=float(rope.get("rope_theta", 10000.0)),
        )
        return shape, int(config.intermediate_size)
    except (AttributeError, TypeError, ValueError):
        raise UsageError(
            f"{type(target.model).__name__} is not shaped like a Llama, so no head can be made after it: "
            "choose another model"
        ) from None


def taps(method: str, target: StockTarget) -> tuple[int, ...]:
    """The hidden states to store: what the head reads, last the one its outputs are compared with."""
    layers = target.model.config.get_text_config().num_hidden_layers
    if method == "eagle3":
        if layers < 7:
            raise UsageError(
                f"an EAGLE-3 head reads three layers, and {layers} are too few: use --method eagle2"
            )
        return (2, layers // 2, layers - 3, -1)
    return (-1,)


def make_network(plan: Plan, target: StockTarget, shape: HeadShape, inner: int, rows: Tensor) -> DraftNetwork:
    """An untrained head."""
    import torch

    from engine.training import (
        DraftModelNetwork,
        Eagle3Network,
        EagleNetwork,
        HydraNetwork,
        MedusaNetwork,
    )

    torch.manual_seed(plan.seed)
    if plan.method == "eagle3":
        layers = target.model.config.get_text_config().num_hidden_layers
        return Eagle3Network(shape, target.hidden_size, inner, layers, rows)
    if plan.method in ("medusa", "hydra"):
        kind = MedusaNetwork if plan.method == "medusa" else HydraNetwork
        return kind(plan.steps, target.hidden_size)
    if plan.method == "draft-model":
        network = DraftModelNetwork(shape, target.hidden_size, inner, plan.layers)
        network.begin_as(target.model)
        return network
    return EagleNetwork(shape, target.hidden_size, inner)
