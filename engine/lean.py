"""The target by our own decoder: for Llama-shaped models, what `StockTarget` does in less time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from engine.decoder import Decoder
from engine.layer import Slab
from engine.linear import Linear
from engine.static import WIDTHS, StaticVerification
from engine.target import PREFILL_CHUNK, Chunk
from engine.tree import DraftTree


class LeanTarget:
    """A Llama-shaped model with full attention; `StockTarget` says what its members mean.

    The weights of `model` become the decoder's: afterwards it may serve as a source of names and sizes, and
    of logits only where they were not packed. Raises UnsupportedModelError.
    """

    takes_trees = True

    def __init__(
        self, model: PreTrainedModel, taps: tuple[int, ...] = (), static: bool | None = None
    ) -> None:
        """Trees are verified with `static` shapes, in CUDA graphs; default: where all is on one GPU."""
        self.decoder = Decoder(model)
        self.model = model.eval()
        self.taps = taps
        self.slabs = [
            Slab(len(stage), self.decoder.shape, like=stage[0].attention_norm)
            for stage in self.decoder.stages
        ]
        is_whole = len(self.slabs) == 1 and self.slabs[0].rows.device == self.device
        is_static = self.device.type == "cuda" and is_whole if static is None else static
        self._static = StaticVerification(self) if is_static else None

    @property
    def device(self) -> torch.device:
        """Where token ids go."""
        return self.decoder.embedding.device

    @property
    def vocabulary(self) -> int:
        """Rows of the LM head."""
        return self.decoder.head.out_features

    @property
    def hidden_size(self) -> int:
        """Width of the final hidden state."""
        return self.decoder.embedding.shape[1]

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return len(self.decoder.layers)

    @property
    def context(self) -> int:
        """Longest sequence the model was made for, tokens."""
        return getattr(self.model.config, "max_position_embeddings", None) or 2**31

    @property
    def embedding(self) -> nn.Embedding:
        """Input embedding, shared with heads."""
        return self.model.get_input_embeddings()

    @property
    def lm_head(self) -> Linear:
        """Output projection, shared with heads."""
        return self.decoder.head

    @property
    def length(self) -> int:
        """Tokens in the KV cache."""
        return self.slabs[0].length

    def extend(self, tokens: list[int], chunk: int = PREFILL_CHUNK) -> Iterator[Chunk]:
        """Cache `tokens` after what is cached, `chunk` at a time."""
        for start in range(0, len(tokens), chunk):
            part = torch.tensor(tokens[start : start + chunk], device=self.device)
            m = len(part)
            depths = torch.arange(m, device=self.device)
            visible = depths <= depths[:, None]  # [m, m] causal
            logits, features = self._forward(part, depths, visible, last_only=True)
            self._count(self.length + m)
            yield Chunk(start + m, logits, features)

    def verify(self, tree: DraftTree) -> tuple[Tensor, Tensor | None]:
        """One forward over the whole tree.

        Logits [N, V] and features [N, F]. Its N rows stay in the slab until `keep`.
        """
        if self._static and len(tree) <= WIDTHS[-1]:
            return self._static.verify(tree)
        depths = torch.tensor(tree.depths, device=self.device)
        return self._forward(tree.tokens.to(self.device), depths, tree.mask.to(self.device))

    def keep(self, path: list[int]) -> None:
        """Of the rows that `verify` cached, keep those of `path`; drop the rest."""
        for slab in self.slabs:
            slab.keep(path)

    def rewind(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        self._count(length)

    def reserve(self, rows: int) -> None:
        """Make room for so many after the cached ones."""
        for slab in self.slabs:
            slab.reserve(rows)
        self.decoder.rotary.reserve(self.length + rows)

    @property
    def wanted(self) -> list[int]:
        """The hidden states to be had from the decoder, for the taps."""
        return [tap % (self.layers + 1) for tap in self.taps]

    def _count(self, length: int) -> None:
        """So many rows count from now on."""
        for slab in self.slabs:
            slab.length = length

    def _forward(
        self, tokens: Tensor, depths: Tensor, visible: Tensor, last_only: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Logits and features of m rows, which see the cached ones and each other as in `visible` [m, m]."""
        m = len(tokens)
        self.reserve(m)  # no row is deeper than m - 1
        bias = None
        if m > 1:
            bias = self.decoder.embedding.new_zeros(m, self.length + m)
            bias[:, self.length :].masked_fill_(~visible, -torch.inf)
        wanted = self.wanted
        states = self.decoder.forward(tokens, self.length + depths, self.slabs, bias, wanted)
        final = states[self.layers]
        logits = self.decoder.head(final[-1:] if last_only else final)
        return logits, torch.cat([states[i] for i in wanted], dim=-1) if wanted else None  # [m, F]
