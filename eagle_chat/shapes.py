"""The sizes of a decoder, as its config.json or the catalogue gives them, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HEADS = 4  # of Medusa and Hydra, as published; some of Medusa have five


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama-shaped decoder. Biases and the norms of queries and keys are too small to count."""

    layers: int
    hidden: int
    inner: int  # of an MLP, or of one expert
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool = False  # the LM head is the embedding
    experts: int = 0  # of a layer; 0: one MLP

    @property
    def embedding(self) -> int:
        """Parameters of the embedding and the LM head."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def routed(self) -> int:
        """Parameters of all experts."""
        return self.layers * self.experts * self._mlp

    @property
    def parameters(self) -> int:
        """All of them."""
        mlp = 0 if self.experts else self._mlp
        router, norms = self.hidden * self.experts, 2 * self.hidden
        layer = self._attention + mlp + router + norms
        return self.embedding + self.layers * layer + self.routed + self.hidden

    @property
    def cached(self) -> int:
        """Numbers that keys and values of one token are."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    def head_parameters(self, method: str) -> int:
        """About those of a published draft head: a layer of this width and what joins it, or several."""
        layer = self._attention + self._mlp
        if method in ("medusa", "hydra"):  # each a layer or two of this width, and an LM head of its own
            reads = 1 if method == "medusa" else 4  # about: a Hydra head reads the embeddings before it too
            return HEADS * (reads * self.hidden**2 + self.hidden * self.vocabulary)
        if method != "eagle3":
            return 2 * self.hidden**2 + layer
        # q, k and v read twice the width; an LM head of its own has a part of the vocabulary
        wider = self.hidden * self.head_dim * (self.heads + 2 * self.kv_heads)
        return 3 * self.hidden**2 + layer + wider + self.hidden * min(self.vocabulary, 32_000)

    @property
    def _attention(self) -> int:
        return 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)

    @property
    def _mlp(self) -> int:
        return 3 * self.hidden * self.inner


def shape_of(config: Mapping[str, Any]) -> Shape | None:
    """The shape that a target's config.json describes; None where it is not of this kind."""
    text = config.get("text_config")
    fields = text if isinstance(text, Mapping) else config
    try:
        heads = fields["num_attention_heads"]
        experts = fields.get("num_experts") or fields.get("num_local_experts") or 0
        inner = (fields.get("moe_intermediate_size") if experts else None) or fields["intermediate_size"]
        return Shape(
            layers=int(fields["num_hidden_layers"]),
            hidden=int(fields["hidden_size"]),
            inner=int(inner),
            heads=int(heads),
            kv_heads=int(fields.get("num_key_value_heads") or heads),
            head_dim=int(fields.get("head_dim") or fields["hidden_size"] // heads),
            vocabulary=int(fields["vocab_size"]),
            tied=bool(fields.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
            experts=int(experts),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
