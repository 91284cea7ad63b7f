"""What the layouts of Medusa and Hydra share: blocks numbered by head and layer, and whose LM head it is.

Published heads have an LM head each. Ours use the target's, and before it a square linear layer,
`{prefix}{head}.to_lm_head`; in heads without either the target's LM head follows the blocks. An optional
`draft_vocab` restricts what is proposed to those rows of the LM head.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from engine.checkpoints.checks import (
    check_hidden_size,
    check_names,
    check_shapes,
    draft_vocabulary,
    share_embedding,
)
from engine.checkpoints.files import Config
from engine.drafters.draft_vocabulary import proposing
from engine.drafters.residual_head import Block, ResidualHead
from engine.linear import Linear
from engine.target import Target


@dataclass(frozen=True)
class Kind:
    """What differs."""

    name: str  # for sentences, with its article
    config: str  # how its fields in config.json begin
    prefix: str  # of the blocks, which are called {prefix}{head}.{layer}
    lm_head: str  # of a head's own LM head, with places for head and layers
    lm_bias: bool
    reads_tokens: bool  # the first block reads the embeddings of one token more than the head before
    dropout: bool = False  # one stands before each block, and counts where layers are numbered

    def block(self, head: int, layer: int) -> str:
        """The name of a block."""
        return f"{self.prefix}{head}.{2 * layer + 1 if self.dropout else layer}"

    def square(self, head: int) -> list[str]:
        """The names of the square layer before the target's LM head."""
        return [f"{self.prefix}{head}.to_lm_head.{part}" for part in ("weight", "bias")]

    def own(self, head: int, layers: int) -> list[str]:
        """The names of a head's own LM head."""
        name = self.lm_head.format(head=head, layers=layers)
        return [f"{name}.{part}" for part in (("weight", "bias") if self.lm_bias else ("weight",))]

    def linears(self, head: int, layer: int) -> list[str]:
        """The linear layers in a block."""
        parts = ("linear", "res_connection") if self.reads_tokens and layer == 0 else ("linear",)
        return [f"{self.block(head, layer)}.{part}" for part in parts]

    def inputs(self, head: int, layer: int) -> int:
        """What a block reads, in hidden sizes."""
        return head + 2 if self.reads_tokens and layer == 0 else 1


def load_heads(
    kind: Kind, tensors: dict[str, Tensor], config: Config, file: Path, target: Target, target_name: str
) -> list[ResidualHead]:
    """The heads, if they are whole and fit `target`."""
    share_embedding(tensors, config, file, target, target_name)
    draft_vocab = draft_vocabulary(tensors.pop("draft_vocab", None), target, file)
    heads, layers = _counts(kind, tensors, config)
    shapes = _Shapes(kind, heads, layers, target.vocabulary, target.hidden_size)
    lm_heads = next((names for names in (shapes.own, shapes.squares) if tensors.keys() & names), {})
    check_names(tensors, shapes.blocks.keys() | lm_heads.keys(), set(), kind.name, file)
    check_hidden_size(len(tensors[f"{kind.block(0, 0)}.linear.weight"]), file, target, target_name)
    check_shapes(tensors, shapes.blocks | lm_heads, file)
    weight = target.lm_head.weight
    tensors = {name: tensor.to(weight.device, weight.dtype) for name, tensor in tensors.items()}
    draft_vocab = None if draft_vocab is None else draft_vocab.to(weight.device)
    shared = None if lm_heads is shapes.own else proposing(target.lm_head, draft_vocab)
    made = []
    for head in range(heads):
        square = [tensors.pop(name) for name in kind.square(head)] if lm_heads is shapes.squares else []
        own = [tensors.pop(name) for name in kind.own(head, layers)] if lm_heads is shapes.own else []
        words = shared or proposing(
            Linear(own[0], own[1] if kind.lm_bias else None), draft_vocab, grows=False
        )
        made.append(
            ResidualHead(
                [Block(tensors, kind.block(head, layer)) for layer in range(layers)],
                Linear(square[0], square[1]) if square else None,
                words,
                target.vocabulary,
            )
        )
    return made


class _Shapes:
    """The shapes of all tensors that `heads` of `layers` blocks may have."""

    def __init__(self, kind: Kind, heads: int, layers: int, vocabulary: int, hidden: int) -> None:
        self.blocks: dict[str, list[int]] = {}
        self.own: dict[str, list[int]] = {}  # LM heads
        self.squares: dict[str, list[int]] = {}
        for head in range(heads):
            for layer in range(layers):
                inputs = kind.inputs(head, layer) * hidden
                for name in kind.linears(head, layer):
                    self.blocks |= {f"{name}.weight": [hidden, inputs], f"{name}.bias": [hidden]}
            for name in kind.own(head, layers):
                self.own[name] = [vocabulary, hidden] if name.endswith(".weight") else [vocabulary]
            weight, bias = kind.square(head)
            self.squares |= {weight: [hidden, hidden], bias: [hidden]}


def _counts(kind: Kind, tensors: dict[str, Tensor], config: Config) -> tuple[int, int]:
    """Heads, and blocks of each.

    What is there counts, since published configs of Medusa say fewer heads, or nothing; one that says more
    tells of a file that is not whole.
    """
    pattern = re.compile(re.escape(kind.prefix) + r"(\d{1,4})\.(\d{1,4})\.linear\.weight")
    found = [match.groups() for name in tensors if (match := pattern.fullmatch(name))]
    heads = max(int(head) + 1 for head, _ in found)
    layers = max(int(number) // (2 if kind.dropout else 1) + 1 for _, number in found)
    heads = max(heads, config.count(f"{kind.config}_num_heads", 1))
    layers = max(layers, config.count(f"{kind.config}_num_layers", 1))
    more = len(tensors) + 1  # than there can be: something is missing then, however large the number is
    return min(heads, more), min(layers, more)
