"""A draft model that shares embedding and LM head with the target: a Llama of a few layers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from engine.drafters.head_layer import HeadLayer, HeadShape
from engine.layer import rms_norm
from engine.linear import Linear, trimmed
from engine.target import PREFILL_CHUNK, Chunk


class SharedLlama:
    """What `engine.drafters.model` needs of a causal LM, with KV caches of its own.

    It takes `tensors`, which carry their published names, over. `draft_vocab` ([D] target ids) restricts what
    it can say to those rows of the LM head, which are gathered once: the full LM head of a small target takes
    longer than the layers.
    """

    takes_trees = True

    def __init__(
        self,
        shape: HeadShape,
        tensors: dict[str, Tensor],
        embedding: nn.Embedding,
        lm_head: nn.Linear | Linear,
        context: int,
        draft_vocab: Tensor | None = None,
    ) -> None:
        self.vocabulary = lm_head.out_features
        self.context = context
        self.length = 0  # tokens in the KV caches
        self.embedding = embedding
        self.draft_vocab = draft_vocab
        self.lm_head = trimmed(lm_head, draft_vocab)
        layers = sum(name.endswith("input_layernorm.weight") for name in tensors)
        names = [f"model.layers.{i}" for i in range(layers)]
        self.eps = shape.rms_norm_eps
        self.norm = tensors.pop("model.norm.weight")  # [H]
        self.input_norms = [tensors.pop(f"{name}.input_layernorm.weight") for name in names]  # [H] each
        self.layers = [HeadLayer(shape, tensors, name) for name in names]

    def extend(self, tokens: list[int], chunk: int = PREFILL_CHUNK) -> Iterator[Chunk]:
        """Cache `tokens` after what is cached, `chunk` at a time."""
        for start in range(0, len(tokens), chunk):
            part = torch.tensor(tokens[start : start + chunk], device=self.norm.device)
            logits = self._logits(self._forward(part)[-1:])
            self.length += len(part)
            yield Chunk(start + len(part), logits, None)

    def rewind(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        self.length = length

    def _forward(self, tokens: Tensor) -> Tensor:
        """The final normed states [m, H] of `tokens` [m] after the cached ones."""
        end = self.length + len(tokens)
        positions = torch.arange(self.length, end, device=tokens.device)
        visible = torch.arange(end, device=tokens.device) <= positions[:, None]  # [m, end]
        x = self.embedding(tokens).to(self.norm.dtype)
        for layer, norm in zip(self.layers, self.input_norms, strict=True):
            cache = layer.at(self.length, len(tokens))
            x = layer.forward(rms_norm(x, norm, self.eps), x, positions, cache, visible)
        return rms_norm(x, self.norm, self.eps)

    def _logits(self, hidden: Tensor) -> Tensor:
        """[m, V] from [m, H]: what it cannot say has no probability."""
        scores = self.lm_head(hidden)
        if self.draft_vocab is None:
            return scores
        everything = scores.new_full((len(scores), self.vocabulary), -torch.inf)
        return everything.index_copy_(1, self.draft_vocab, scores)
