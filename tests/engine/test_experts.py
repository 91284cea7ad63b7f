"""Routed MLPs: three ways to the same sum, for one row, for a tree and for a prompt."""

from __future__ import annotations

import pytest
import torch
from transformers import MixtralConfig, Qwen3MoeConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

from engine.experts import Experts
from tests.engine.test_target import SMALL
from tests.engine.tiny import fill

BLOCKS = {
    "mixtral": lambda: MixtralSparseMoeBlock(MixtralConfig(num_local_experts=4, **SMALL)),
    "qwen3-moe": lambda: Qwen3MoeSparseMoeBlock(
        Qwen3MoeConfig(num_experts=9, num_experts_per_tok=3, moe_intermediate_size=16, **SMALL)
    ),
    "shares of one": lambda: Qwen3MoeSparseMoeBlock(
        Qwen3MoeConfig(
            num_experts=9, num_experts_per_tok=3, moe_intermediate_size=16, norm_topk_prob=True, **SMALL
        )
    ),
}


@pytest.mark.parametrize("rows", [1, 2, 7, 80])
@pytest.mark.parametrize("name", BLOCKS)
def test_each_way_is_transformers_sum(name: str, rows: int) -> None:
    """Experts that get other rows, shares of other experts, gate and up swapped."""
    block = BLOCKS[name]()
    fill(block, 3)
    gate, stored = block.gate, block.experts
    experts = Experts(
        gate.weight, stored.gate_up_proj, stored.down_proj, gate.top_k, name in ("mixtral", "shares of one")
    )
    x = torch.randn(rows, 32, generator=torch.Generator().manual_seed(rows))
    with torch.inference_mode():
        expected = block(x[None])[0]
        routed = experts.route(x)
        for way in (experts.one_by_one, experts.picked, experts.all_at_once):
            torch.testing.assert_close(way(x, *routed), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(experts(x), expected, rtol=1e-4, atol=1e-4)
    assert len(routed[1].unique()) > 1
