"""An MLP of many experts, of which each row takes a few: Mixtral's and Qwen3-MoE's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

# On a GPU, a tree at most: as many read all experts anyway, and all of them in one product can be recorded.
FEW_ROWS = 96


@dataclass
class Experts:
    """E experts, I wide; a row adds up the outputs of its `taken` likeliest ones, by the router's shares."""

    router: Tensor  # [E, H]
    gate_up: Tensor  # [E, 2 * I, H]
    down: Tensor  # [E, H, I]
    taken: int
    shares_of_one: bool  # whether the shares of those taken are made to add up to 1

    def __call__(self, x: Tensor) -> Tensor:
        """[m, H] to [m, H]."""
        shares, chosen = self.route(x)
        if x.device.type == "cpu" or len(x) > FEW_ROWS:
            return self.one_by_one(x, shares, chosen)
        copied = 3 * chosen.numel()  # an expert that is picked out is read, written and read again
        return (self.picked if copied < len(self.router) else self.all_at_once)(x, shares, chosen)

    def route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Shares and numbers of the experts that each row takes, both [m, taken]."""
        shares, chosen = F.linear(x, self.router).float().softmax(-1).topk(self.taken)
        if self.shares_of_one:
            shares = shares / shares.sum(-1, keepdim=True)
        return shares.to(x.dtype), chosen

    def one_by_one(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """Each expert that is taken at all with its rows; the host must know how many they are."""
        by_expert = chosen.flatten().argsort(stable=True)  # [m * taken], numbers of pairs
        counts = torch.bincount(chosen.flatten(), minlength=len(self.router)).tolist()
        weights = shares.flatten()[by_expert, None]
        rows = by_expert // self.taken
        out, start = torch.zeros_like(x), 0
        for expert, count in enumerate(counts):
            if count:
                own = slice(start, start := start + count)
                gate, up = F.linear(x[rows[own]], self.gate_up[expert]).chunk(2, dim=-1)
                result = F.linear(F.silu(gate) * up, self.down[expert])
                out.index_add_(0, rows[own], weights[own] * result)
        return out

    def picked(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """Copies of the experts that each row takes: for a row or two."""
        gate_up, down = self.gate_up[chosen], self.down[chosen]  # [m, taken, 2 * I, H], [m, taken, H, I]
        gate, up = (gate_up @ x[:, None, :, None]).squeeze(-1).chunk(2, dim=-1)
        results = (down @ (F.silu(gate) * up)[..., None]).squeeze(-1)  # [m, taken, H]
        return (shares[..., None] * results).sum(1)

    def all_at_once(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """All experts with all rows; a row gives no weight to those that it does not take."""
        weights = shares.new_zeros(len(x), len(self.router)).scatter_(1, chosen, shares)  # [m, E]
        gate, up = (x @ self.gate_up.transpose(1, 2)).chunk(2, dim=-1)  # [E, m, I]
        hidden = F.silu(gate) * up * weights.t()[..., None]
        return (hidden @ self.down.transpose(1, 2)).sum(0)
