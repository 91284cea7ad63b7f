"""What a model will take of memory, from what is known before it is loaded: an estimate, on the safe side."""

from __future__ import annotations

from dataclasses import dataclass

from eagle_chat.shapes import Shape

# Bytes of a quantized weight: nf4 has a four-byte scale for 64 of them.
PER_WEIGHT = {"int8": 1.0, "nf4": 0.5 + 4 / 64}
CHUNK = 512  # tokens of a prompt that are read at once
ROWS = 64  # of logits that are looked at at once: a tree
GROWING = 1.5  # a cache doubles by being copied: the old half and the new whole are there at once
RUNTIME = {"cuda": 600_000_000, "mps": 300_000_000, "cpu": 420_000_000}
"""What the libraries take for themselves: CUDA's context and workspaces, or PyTorch, transformers and a
tokenizer (measured: 354 MB and 66)."""


@dataclass(frozen=True, slots=True)
class Model:
    """What is known of a target: its shape, and how many parameters its files hold."""

    shape: Shape
    parameters: int
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Placing:
    """How a target is to be held."""

    kind: str  # of device: cuda, cpu, mps
    itemsize: int  # bytes of a number that is not quantized
    quant: str = "none"


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes, by what they are for."""

    weights: int
    copies: int  # of weights, in another form or for another program
    head: int
    token: int  # of one token in the caches
    work: int  # activations and libraries

    def total(self, tokens: int) -> int:
        """With a conversation of so many tokens."""
        return self.weights + self.copies + self.head + self.work + tokens * self.token


def need(model: Model, placing: Placing, head_parameters: int = 0) -> Need:
    """What `model` takes there, with a head that has about so many parameters."""
    shape, size = model.shape, placing.itemsize
    logits = 3 * 4 * ROWS * shape.vocabulary  # in fp32: scores, probabilities, and one sorted copy
    states = CHUNK * (8 * shape.hidden + 4 * max(shape.inner, shape.hidden)) * size
    attention = CHUNK * 2048 * shape.heads * (size + 4)
    # of a head: its keys and values, and up to three of the target's states
    beside = 2 * shape.kv_heads * shape.head_dim + 3 * shape.hidden if head_parameters else 0
    return Need(
        weights=weight_bytes(model, placing),
        copies=_copied_bytes(model, placing),
        head=head_parameters * size,
        token=int(GROWING * (shape.cached + beside) * size),
        work=logits + states + attention + RUNTIME.get(placing.kind, 0),
    )


def _copied_bytes(model: Model, placing: Placing) -> int:
    """On a CPU products read packed weights, which the decoder holds instead of the plain ones.

    A tied embedding is there in both forms.
    """
    packs = placing.kind == "cpu" and model.shape.tied
    return model.shape.embedding * placing.itemsize if packs else 0


def weight_bytes(model: Model, placing: Placing) -> int:
    """Of the target alone. bitsandbytes leaves embedding, LM head and experts as they are."""
    if placing.quant == "none":
        return model.parameters * placing.itemsize
    full = min(model.parameters, model.shape.embedding + model.shape.routed)
    return int(full * placing.itemsize + (model.parameters - full) * PER_WEIGHT[placing.quant])
