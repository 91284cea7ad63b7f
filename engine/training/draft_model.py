"""A draft model as a trainable module: a Llama of a few layers with the target's embedding and LM head.

It reads tokens alone, and so learns the next one as any language model does, here from all that the target
says of it. It has one step: what it drafts it reads like any other text.

It begins as the target's first layers, whose last product is then solved for the target's last state.
Measured on SmolLM2-135M, one layer, after 40,000 pairs: 0.27 of the target's best tokens found; 0.17 without
solving, 0.19 from random weights.

B sequences, T pairs, H hidden size, I inner size of an MLP.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from engine.drafters.head_layer import HeadShape
from engine.training.least_squares import LeastSquares
from engine.training.network import DraftNetwork
from engine.training.unrolled import GatedMlp, RmsNorm, UnrolledAttention, initialise_small, llama_config

DOUBT = 0.4  # factor on the final norm: a linear guess is right in its direction more than in its length


class LlamaLayer(nn.Module):
    """A decoder layer like the target's own."""

    def __init__(self, shape: HeadShape, hidden: int, inner: int) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(hidden, eps=shape.rms_norm_eps)
        self.self_attn = UnrolledAttention(shape, hidden, hidden)
        self.mlp = GatedMlp(hidden, inner)
        self.post_attention_layernorm = RmsNorm(hidden, eps=shape.rms_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, H] to [B, T, H]."""
        x, inside = self.inside(x)
        return x + self.mlp.down_proj(inside)

    def inside(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The sum [B, T, H] that the MLP's output is added to, and what its last product reads, [B, T, I]."""
        x = x + self.self_attn(self.input_layernorm(x), [])
        return x, self.mlp.inside(self.post_attention_layernorm(x))


class LlamaBody(nn.Module):
    """Layers and the final norm."""

    def __init__(self, shape: HeadShape, hidden: int, inner: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([LlamaLayer(shape, hidden, inner) for _ in range(layers)])
        self.norm = RmsNorm(hidden, eps=shape.rms_norm_eps)

    @property
    def in_order(self) -> list[LlamaLayer]:
        """The layers."""
        return [layer for layer in self.layers if isinstance(layer, LlamaLayer)]


class DraftModelNetwork(DraftNetwork):
    """The body under the names of a Llama checkpoint."""

    taps = (-1,)
    proposes_text = False

    def __init__(self, shape: HeadShape, hidden: int, inner: int, layers: int) -> None:
        super().__init__()
        self.shape, self.hidden, self.inner = shape, hidden, inner
        self.model = LlamaBody(shape, hidden, inner, layers)
        initialise_small(self)

    def begin_as(self, target: nn.Module) -> None:
        """With the target's first layers and its final norm, as far as they are shaped alike."""
        own, theirs = self.state_dict(), target.state_dict()
        alike = {n: theirs[n] for n, weight in own.items() if n in theirs and theirs[n].shape == weight.shape}
        self.load_state_dict(own | alike)

    def steps(self, wanted: int) -> int:
        """The one."""
        return 1

    def forward(self, embeddings: Tensor, features: Tensor, steps: int) -> list[Tensor]:
        """As every head; the features are what it should come to, and are not looked at."""
        x = embeddings.to(features.dtype)
        for layer in self.model.in_order:
            x = layer(x)
        return [self.model.norm(x)[:, 1:]]

    def example(self, embeddings: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """What the last product reads, and what it should add for the norm to make features of the sum."""
        norm, (*layers, last) = self.model.norm.weight, self.model.in_order
        x = embeddings.to(norm.device)
        for layer in layers:
            x = layer(x)
        x, inside = last.inside(x)
        return inside.cpu(), features / norm.cpu() - x.cpu()

    def start(self, sums: LeastSquares) -> None:
        """The last product is the guess, without its bias."""
        self.model.in_order[-1].mlp.down_proj.weight.copy_(sums.solve()[0])
        self.model.norm.weight.mul_(DOUBT)

    def config(self) -> dict[str, Any]:
        """Those of a Llama."""
        return llama_config(self.shape, self.hidden, self.inner, len(self.model.layers))
