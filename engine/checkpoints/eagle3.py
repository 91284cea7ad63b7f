"""The layout of EAGLE-3: `fc` over several layers of the target, `midlayer`, its own `norm` and `lm_head`."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from engine.checkpoints.checks import (
    Naming,
    check_hidden_size,
    check_names,
    check_shapes,
    head_shape,
    layer_names,
    layer_shapes,
    share_embedding,
)
from engine.checkpoints.files import Config
from engine.drafters.eagle3_head import Eagle3Head, Norms
from engine.drafters.head_layer import HeadShape
from engine.errors import CheckpointError
from engine.target import Target

LAYERS = ("midlayer", "layers.0")  # the decoder layer, in the paper's heads and as later trainers call it
PUBLISHED = Naming(LAYERS[0])
EMBEDDING = "embed_tokens.weight"
TAPS = "eagle_aux_hidden_state_layer_ids"
THREE = range(3)  # states that a head reads whose config does not say which


def load(
    tensors: dict[str, Tensor],
    config: Config,
    file: Path,
    target: Target,
    target_name: str,
    naming: Naming | None = None,
) -> Eagle3Head:
    """The head, if it is whole and fits `target`. Without `naming` it has that of the paper's, or near it."""
    naming = naming or _as_found(tensors)
    _check_kind(tensors, file, naming.layer)
    tensors.pop("t2d", None)  # which target ids are in the draft vocabulary: for training
    offsets = tensors.pop("d2t", None)
    check_names(tensors, _required(config, naming), {EMBEDDING, *naming.optional}, "an EAGLE-3", file)
    hidden = len(tensors["fc.weight"])
    width = config.count("target_hidden_size", hidden)
    check_hidden_size(width, file, target, target_name)
    if width == hidden and not config.flag("embed_requires_grad"):
        share_embedding(tensors, config, file, target, target_name)
    elif EMBEDDING not in tensors:
        raise CheckpointError(
            f"{file}: tensor {EMBEDDING} is missing, which a head of width {hidden} for a target of width "
            f"{width}, or one whose embedding was trained, needs: fetch the head again"
        )
    draft_vocab = _target_ids(offsets, len(tensors["lm_head.weight"]), file, target)
    taps = _taps(config, target, target_name)
    shape = head_shape(config, tensors, naming.layer, file, naming.window)
    expected = _shapes(tensors, shape, naming.layer, taps=len(taps), width=width)
    expected[EMBEDDING] = [target.embedding.weight.shape[0], hidden]
    check_shapes(tensors, expected, file)
    weight = target.lm_head.weight
    tensors = {name: tensor.to(weight.device, weight.dtype) for name, tensor in tensors.items()}
    own = tensors.pop(EMBEDDING, None)
    embedding = target.embedding if own is None else nn.Embedding.from_pretrained(own)
    draft_vocab = None if draft_vocab is None else draft_vocab.to(weight.device)
    norms = Norms(config.flag("norm_before_residual"), config.flag("norm_output"))
    tensors = naming.as_in(PUBLISHED, tensors)
    return Eagle3Head(shape, tensors, embedding, draft_vocab, taps, target.vocabulary, norms)


def describes(tensors: dict[str, Tensor]) -> bool:
    """Whether they are of such a head, whatever its layer is called."""
    named = {f"{layer}.hidden_norm.weight" for layer in LAYERS}
    return "d2t" in tensors or bool(named & tensors.keys()) or layer_of(tensors, "") == PUBLISHED.layer


def layer_of(tensors: dict[str, Tensor], usual: str) -> str:
    """What the decoder layer is called in a file; `usual` where there is none."""
    return next((layer for layer in LAYERS if any(name.startswith(f"{layer}.") for name in tensors)), usual)


def _as_found(tensors: dict[str, Tensor]) -> Naming:
    """With the biases and norms that attention has: their fields in config.json differ by trainer."""
    layer = layer_of(tensors, PUBLISHED.layer)
    wholes = (
        {f"{layer}.self_attn.{letter}_proj.bias" for letter in "qkv"},
        {f"{layer}.self_attn.o_proj.bias"},
        {f"{layer}.self_attn.{letter}_norm.weight" for letter in "qk"},
    )
    return Naming(layer, required=frozenset().union(*(names for names in wholes if names & tensors.keys())))


def _check_kind(tensors: dict[str, Tensor], file: Path, layer: str) -> None:
    """Relatives of the layout, which would fail on a puzzling name."""
    if not any(name.startswith(f"{layer}.") for name in tensors):
        names = ", ".join(sorted(tensors)[:4])
        raise CheckpointError(
            f"{file} is an EAGLE-3 head of another layout, which is not supported: {layer}.* expected, "
            f"{names}, … found"
        )


def _required(config: Config, naming: Naming) -> set[str]:
    """Every tensor but the embedding; some trainers norm what goes into `fc`, and say so."""
    names = {"fc.weight", "norm.weight", "lm_head.weight", *layer_names(naming.layer), *naming.required}
    names |= {f"{naming.layer}.{norm}.weight" for norm in ("hidden_norm", "input_layernorm")}
    if config.flag("norm_before_fc"):
        names.add("input_norm.weight")
    if config.flag("fc_norm"):
        names |= {f"fc_norm.{tap}.weight" for tap in range(len(_given_taps(config) or THREE))}
    return names


def _target_ids(offsets: Tensor | None, drafted: int, file: Path, target: Target) -> Tensor | None:
    """Target ids [D] of the LM head's rows, from their offsets `d2t`; None where they are the same."""
    if offsets is None and drafted == target.vocabulary:
        return None
    if offsets is None:
        raise CheckpointError(
            f"{file}: tensor d2t is missing, which a draft vocabulary of {drafted} tokens needs: fetch the "
            "head again"
        )
    if list(offsets.shape) == [drafted] and not offsets.is_floating_point():
        ids = torch.arange(drafted) + offsets.long()
        if bool(((ids >= 0) & (ids < target.vocabulary)).all()):
            return ids
    raise CheckpointError(
        f"{file}: d2t must be {drafted} whole numbers that lead to token ids below {target.vocabulary}: "
        "fetch the head again"
    )


def _given_taps(config: Config) -> list[int] | None:
    return config.indices(TAPS) or config.section("eagle_config").indices(TAPS)


def _taps(config: Config, target: Target, target_name: str) -> tuple[int, ...]:
    """The residual streams that `fc` joins, each taken before a decoder layer: entries of hidden_states.

    The reference takes those before layers 2, L // 2 and L - 3. Other trainers write theirs down, so or by
    the layers they come out of; lists of the latter kind start at 1, by which sglang knows them too
    (sgl-project/sglang#25454).
    """
    layers, given = target.layers, _given_taps(config)
    taps = given or [2, layers // 2, layers - 3]
    if given and given[0] == 1:
        taps = [layer + 1 for layer in given]
    if not all(0 <= tap < layers for tap in taps):
        raise CheckpointError(
            f"the head {config.file.parent} reads the states before layers {taps} of its target, but "
            f"{target_name} has {layers} layers: choose the head of this model"
        )
    return tuple(taps)


def _shapes(
    tensors: dict[str, Tensor], shape: HeadShape, layer: str, *, taps: int, width: int
) -> dict[str, list[int]]:
    """Of a head that reads `taps` states of `width` values."""
    hidden, drafted = len(tensors["fc.weight"]), len(tensors["lm_head.weight"])
    inner = len(tensors[f"{layer}.mlp.gate_proj.weight"])
    return {
        "fc.weight": [hidden, taps * width],
        "norm.weight": [hidden],
        "lm_head.weight": [drafted, hidden],
        "input_norm.weight": [taps * width],
        **{f"fc_norm.{tap}.weight": [width] for tap in range(taps)},
        f"{layer}.hidden_norm.weight": [hidden],
        f"{layer}.input_layernorm.weight": [hidden],
    } | layer_shapes(shape, layer, inputs=2 * hidden, hidden=hidden, inner=inner)
