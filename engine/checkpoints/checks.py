"""What the layouts of draft heads share: does a head fit its target, its config and its own layout?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from engine.checkpoints.files import Config
from engine.drafters.head_layer import HeadShape, RopeScaling
from engine.errors import CheckpointError
from engine.target import Target


@dataclass(frozen=True)
class Naming:
    """What a layout calls the parts of an EAGLE head, and what it has beside those that all have."""

    layer: str  # the decoder layer
    fc: str = "fc"
    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    window: int | None = None  # as `HeadShape` has it

    def as_in(self, other: Naming, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors under the names of another layout."""
        return {self._name_in(other, name): tensor for name, tensor in tensors.items()}

    def _name_in(self, other: Naming, name: str) -> str:
        for old, new in ((self.layer, other.layer), (self.fc, other.fc)):
            if name.startswith(f"{old}."):
                return new + name.removeprefix(old)
        return name


def check_hidden_size(hidden: int, file: Path, target: Target, target_name: str) -> None:
    """`hidden` is the width of the target's hidden states that the head was made for."""
    if hidden != target.hidden_size:
        raise CheckpointError(
            f"the head {file.parent} was made for a hidden size of {hidden}, but {target_name} has "
            f"{target.hidden_size}: choose the head of this model"
        )


def share_embedding(
    tensors: dict[str, Tensor], config: Config, file: Path, target: Target, target_name: str
) -> None:
    """Drop a copy of the target's embedding. Its shape, or else the config, tells whose vocabulary it was."""
    embedding = tensors.pop("embed_tokens.weight", None)
    vocabulary = config.count("vocab_size", target.vocabulary)
    if embedding is None and vocabulary != target.vocabulary:
        raise CheckpointError(
            f"the head {file.parent} was made for a vocabulary of {vocabulary}, but {target_name} has "
            f"{target.vocabulary}: choose the head of this model"
        )
    if embedding is not None and embedding.shape != target.embedding.weight.shape:
        raise CheckpointError(
            f"the head {file.parent} has an embedding of {list(embedding.shape)}, but {target_name} has "
            f"{list(target.embedding.weight.shape)}: choose the head of this model"
        )


def draft_vocabulary(ids: Tensor | None, target: Target, file: Path) -> Tensor | None:
    """Target ids a head may propose, sorted; None for all."""
    if ids is None:
        return None
    ids = ids.long()
    sound = ids.dim() == 1 and len(ids) > 0 and bool((ids[1:] > ids[:-1]).all())
    if not sound or ids[0] < 0 or ids[-1] >= target.vocabulary:
        raise CheckpointError(
            f"{file}: draft_vocab must be sorted token ids below {target.vocabulary}, each once"
        )
    return ids


def check_names(
    tensors: dict[str, Tensor], required: set[str], optional: set[str], kind: str, file: Path
) -> None:
    """Every tensor of the layout is there, and nothing else. `kind` has its article."""
    for name, tensor in tensors.items():
        if tensor.dim() == 0:
            raise CheckpointError(f"{file}: tensor {name} is a single number: fetch the head again")
    missing = sorted(required - tensors.keys())
    if missing:
        raise CheckpointError(f"{file}: tensor {missing[0]} is missing: fetch the head again")
    surplus = sorted(tensors.keys() - required - optional)
    if surplus:
        raise CheckpointError(f"{file}: tensor {surplus[0]} does not belong to {kind} head")


def check_shapes(tensors: dict[str, Tensor], expected: dict[str, list[int]], file: Path) -> None:
    """Every tensor has its expected shape."""
    for name, tensor in tensors.items():
        if list(tensor.shape) != expected[name]:
            raise CheckpointError(f"{file}: tensor {name} is {list(tensor.shape)}, expected {expected[name]}")


def head_shape(
    config: Config, tensors: dict[str, Tensor], prefix: str, file: Path, window: int | None = None
) -> HeadShape:
    """Head counts from config.json, the head dimension from there or the tensors of the layer `prefix`."""
    heads = config.count("num_attention_heads", None)
    kv_heads = config.count("num_key_value_heads", heads)
    rows = [len(tensors[f"{prefix}.self_attn.{p}_proj.weight"]) for p in "qk"]
    head_dim = config.count("head_dim", max(1, rows[0] // heads))
    if rows != [heads * head_dim, kv_heads * head_dim] or head_dim % 2 or heads % kv_heads:
        raise CheckpointError(
            f"{file}: q_proj and k_proj have {rows[0]} and {rows[1]} rows, which does not fit the "
            f"{heads} heads and {kv_heads} kv heads of its config.json: fetch the head again"
        )
    base = config.table("rope_parameters").get("rope_theta")
    return HeadShape(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        rms_norm_eps=config.number("rms_norm_eps", 1e-6),
        rope_theta=config.number("rope_theta", base if isinstance(base, int | float) else 10000.0),
        rope_scaling=_rope_scaling(config),
        window=window,
    )


def _rope_scaling(config: Config) -> RopeScaling | None:
    """Of those kinds that do not depend on the length of the text; None without any."""
    for name in ("rope_scaling", "rope_parameters"):
        table, fields = config.table(name), config.section(name)
        kind = table.get("rope_type", table.get("type", "default"))
        if kind == "linear":
            return RopeScaling(fields.number("factor", None))
        if kind == "llama3":
            names = ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
            factor, original, low, high = (fields.number(one, None) for one in names)
            if low < high:
                return RopeScaling(factor, original, low, high)
        if kind != "default":
            raise CheckpointError(f"{config.file}: {name} {table} is not supported for draft heads")
    return None


def layer_shapes(
    shape: HeadShape, prefix: str, *, inputs: int, hidden: int, inner: int
) -> dict[str, list[int]]:
    """Whatever the decoder layer `prefix` may have, whose q, k and v read `inputs` values."""
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    products = {
        f"{prefix}.self_attn.q_proj": [q, inputs],
        f"{prefix}.self_attn.k_proj": [kv, inputs],
        f"{prefix}.self_attn.v_proj": [kv, inputs],
        f"{prefix}.self_attn.o_proj": [hidden, q],
        f"{prefix}.mlp.gate_proj": [inner, hidden],
        f"{prefix}.mlp.up_proj": [inner, hidden],
        f"{prefix}.mlp.down_proj": [hidden, inner],
    }
    norms = {f"{prefix}.self_attn.{letter}_norm.weight": [shape.head_dim] for letter in "qk"}
    biases = {f"{name}.bias": rows for name, (*rows, _) in products.items()}
    weights = {f"{name}.weight": size for name, size in products.items()}
    return weights | biases | norms | {f"{prefix}.post_attention_layernorm.weight": [hidden]}


def layer_names(prefix: str) -> set[str]:
    """The tensors of the decoder layer `prefix`."""
    layers = (
        *(f"self_attn.{p}_proj" for p in "qkvo"),
        *(f"mlp.{p}_proj" for p in ("gate", "up", "down")),
        "post_attention_layernorm",
    )
    return {f"{prefix}.{name}.weight" for name in layers}
