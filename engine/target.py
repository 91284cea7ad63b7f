"""The target: a stock transformers model behind the few operations the loop needs.

This file and `engine.past` alone know transformers' cache and mask internals (5.24). Positions are absolute;
batch size is 1 and the batch axis exists only here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicLayer

from engine.errors import UnsupportedModelError
from engine.linear import Linear
from engine.past import Past
from engine.tree import DraftTree

PREFILL_CHUNK = 512


def shared_prefix(a: list[int], b: list[int]) -> int:
    """How many leading tokens two sequences share."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))


@dataclass(frozen=True)
class Chunk:
    """Part of a prompt, after its forward."""

    done: int  # tokens of this call cached so far
    logits: Tensor  # [1, V], after the chunk's last token
    features: Tensor | None  # [T, F], one row per token; None without taps


class Target(Protocol):
    """What the loop, the drafters and the app need of a target; `StockTarget` says what each member means."""

    model: PreTrainedModel
    taps: tuple[int, ...]
    takes_trees: bool

    @property
    def length(self) -> int: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def hidden_size(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def context(self) -> int: ...
    @property
    def embedding(self) -> nn.Embedding: ...
    @property
    def lm_head(self) -> nn.Linear | Linear: ...
    def extend(self, tokens: list[int], chunk: int = PREFILL_CHUNK) -> Iterator[Chunk]: ...
    def verify(self, tree: DraftTree) -> tuple[Tensor, Tensor | None]: ...
    def keep(self, path: list[int]) -> None: ...
    def rewind(self, length: int) -> None: ...


class StockTarget:
    """Any causal LM of transformers, with SDPA or, where it has none, eager attention.

    `takes_trees` is False where it cannot verify more than one node at a time: it decodes plainly. `taps` are
    the hidden states a head reads, in transformers' numbering (entry 0 the embeddings, -1 the final normed
    state); several are concatenated along the last axis.
    """

    def __init__(self, model: PreTrainedModel, taps: tuple[int, ...] = ()) -> None:
        if model.config._attn_implementation not in ("sdpa", "eager"):
            raise UnsupportedModelError(
                f"the target must be loaded with SDPA or eager attention, not "
                f"{model.config._attn_implementation}"
            )
        self.model = model.eval()
        self.taps = taps
        self.past = Past(model)
        self.takes_trees = self.past.is_kept
        self.cache = self.past.new_cache()
        self.length = 0  # tokens in the KV cache
        self._read = 0  # tokens that the model has seen, also in a forward that broke off

    @property
    def device(self) -> torch.device:
        """Where token ids go."""
        return self.model.device

    @property
    def vocabulary(self) -> int:
        """Rows of the LM head."""
        return self.lm_head.weight.shape[0]

    @property
    def hidden_size(self) -> int:
        """Width of the final hidden state."""
        return self.model.config.get_text_config().hidden_size

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return self.model.config.get_text_config().num_hidden_layers

    @property
    def context(self) -> int:
        """Longest sequence the model was made for, tokens."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None) or 2**31

    @property
    def embedding(self) -> nn.Embedding:
        """Input embedding, shared with heads."""
        return self.model.get_input_embeddings()

    @property
    def lm_head(self) -> nn.Linear:
        """Output projection, shared with heads."""
        return self.model.get_output_embeddings()

    def extend(self, tokens: list[int], chunk: int = PREFILL_CHUNK) -> Iterator[Chunk]:
        """Cache `tokens` after what is cached, `chunk` at a time.

        A state is carried on token by token: some models start a new one with every longer forward.
        """
        if not self.past.is_kept:
            chunk = 1 if self.length else max(1, len(tokens))
        for start in range(0, len(tokens), chunk):
            part = torch.tensor(tokens[start : start + chunk], device=self.device)
            positions = torch.arange(self.length, self.length + len(part), device=self.device)
            logits, features = self._forward(part, positions, mask=None, logits_to_keep=1)
            self.length += len(part)
            yield Chunk(start + len(part), logits, features)

    def verify(self, tree: DraftTree) -> tuple[Tensor, Tensor | None]:
        """One forward over the whole tree.

        Logits [N, V] and features [N, F]. Its N rows stay cached until `keep`.
        """
        if len(tree) > 1 and not self.takes_trees:
            raise UnsupportedModelError(f"{type(self.model).__name__} cannot verify drafts: decode plainly")
        depths = torch.tensor(tree.depths, device=self.device)
        mask = self.past.mask(tree, self.length, self.device) if len(tree) > 1 else None
        return self._forward(tree.tokens.to(self.device), self.length + depths, mask, logits_to_keep=0)

    def keep(self, path: list[int]) -> None:
        """Of the rows that `verify` cached, keep those of `path`, moved together; drop the rest.

        Rotary positions need no change: a node's position was its depth already.
        """
        length = self.length + len(path)
        if path != list(range(len(path))):
            source = self.length + torch.tensor(path, device=self.device)
            for layer in self._layers_with_rows():
                rows = source.to(layer.keys.device)
                layer.keys[..., self.length : length, :] = layer.keys[..., rows, :]
                layer.values[..., self.length : length, :] = layer.values[..., rows, :]
        self.rewind(length)

    def rewind(self, length: int) -> None:
        """Forget everything after the first `length` tokens.

        Also rows that a broken forward left in some layers. A model that keeps no rows forgets everything.
        """
        if not self.past.is_kept and self._read != length:
            self.cache, length = self.past.new_cache(), 0
        if self.past.is_kept:
            for layer in self._layers_with_rows():
                layer.keys = layer.keys[..., :length, :]
                layer.values = layer.values[..., :length, :]
        self.length = self._read = length

    def _layers_with_rows(self) -> list[DynamicLayer]:
        return [layer for layer in self.cache.layers if layer.is_initialized and layer.keys is not None]

    def _forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor | dict[str, Tensor] | None,
        logits_to_keep: int,
    ) -> tuple[Tensor, Tensor | None]:
        self._read = self.length + len(tokens)
        outputs = self.model(
            input_ids=tokens[None],
            position_ids=positions[None],
            attention_mask=mask,
            cache=self.cache,
            logits_to_keep=logits_to_keep,
            output_hidden_states=list(self.taps) if self.taps else False,
        )
        features = None
        if self.taps:
            features = torch.cat(
                [outputs.hidden_states[tap][0].to(self.device) for tap in self.taps], dim=-1
            )  # [N, F]
        return outputs.logits[0, -logits_to_keep:], features  # some models give all in any case
