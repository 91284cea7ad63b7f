"""The layout of vLLM's speculators: a config with one of the decoder layer inside, and names of its own.

What the fields mean was read in the library's models. One that is set and not known here is refused: without
it the head would load, guess badly and never say why.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from engine.checkpoints import eagle2, eagle3
from engine.checkpoints.checks import Naming
from engine.checkpoints.files import Config
from engine.drafters.eagle3_head import Eagle3Head
from engine.drafters.eagle_head import EagleHead
from engine.errors import CheckpointError
from engine.target import Target

TYPE = "speculators_model_type"
SPECULATORS = "speculators_config"
LAYER = "transformer_layer_config"
METHODS = {"eagle": "eagle2", "eagle3": "eagle3"}  # by type
# EAGLE-1's `layernorms` is not known: under one name of a tensor, the library norms what leaves the fusion,
# and the trainer of such heads what goes into it.
OF_A_HEAD = {
    "eagle": {"fusion_bias"},
    "eagle3": {
        "draft_vocab_size",
        "eagle_aux_hidden_state_layer_ids",
        "embed_requires_grad",
        "fc_norm",
        "norm_before_fc",
        "norm_before_residual",
        "norm_output",
        "target_hidden_size",
    },
}
OF_A_LAYER = {
    *("attention_bias", "head_dim", "hidden_size", "intermediate_size", "layer_types", "mlp_bias"),
    *("num_attention_heads", "num_key_value_heads", "rms_norm_eps", "rope_parameters", "rope_scaling"),
    *("rope_theta", "sliding_window", "use_sliding_window", "vocab_size"),
}
# Bookkeeping, and what matters to training alone.
SAYS_NOTHING = {
    *("_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "architectures"),
    *("attention_dropout", "auto_map"),
    *("bos_token_id", "dtype", "enable_sp_ulysses", "eos_token_id", "inference_type", "initializer_range"),
    *("max_position_embeddings", "max_window_layers", "pad_token_id", "pretraining_tp"),
    *("speculators_version", "tie_word_embeddings", "torch_dtype", "transformers_version", "use_cache"),
}
# Fields of which these values are known.
VALUES: dict[str, tuple[object, ...]] = {
    "hidden_act": ("silu",),
    "model_type": ("llama", "qwen3"),
    "num_hidden_layers": (1,),
    "partial_rotary_factor": (1,),
}
ARCHITECTURES = ("auto", "LlamaDecoderLayer", "Qwen3DecoderLayer")
OF_THE_TARGET = ("verifier_lm_head.weight", "verifier_norm.weight")  # for training, when they were left there


def describes(config: Config) -> bool:
    """Whether this is the config of such a head."""
    return bool(config.given().keys() & {TYPE, SPECULATORS})


def method_of(config: Config) -> str:
    """The method id that the head was made for; eagle2 for EAGLE-1 heads too."""
    return METHODS[_kind(config)]


def made_for(config: Config) -> str | None:
    """The target that the head names, a hub id or a path; None where it names none."""
    name = config.section(SPECULATORS).section("verifier").given().get("name_or_path")
    return name if isinstance(name, str) else None


def load(
    tensors: dict[str, Tensor], config: Config, file: Path, target: Target, target_name: str
) -> EagleHead | Eagle3Head:
    """The head, if it is whole and fits `target`. Sentences say for which target it was made."""
    base = made_for(config)
    try:
        _check_fields(config)
        flat = Config(config.file, config.section(LAYER).given() | config.given())
        for name in OF_THE_TARGET:
            tensors.pop(name, None)
        of_kind = _load_eagle if _kind(config) == "eagle" else _load_eagle3
        return of_kind(tensors, flat, file, target, target_name)
    except CheckpointError as error:
        raise type(error)(f"{error} (it was made for {base})" if base else str(error)) from None


def _load_eagle(
    tensors: dict[str, Tensor], config: Config, file: Path, target: Target, target_name: str
) -> EagleHead:
    """The LM head is the target's, as the embedding is: copies are dropped."""
    layer, fc = "transformer", "fusion_fc"
    if tensors.get(f"{fc}.weight", Tensor()).dim() != 2:
        raise CheckpointError(f"{file}: tensor {fc}.weight is missing, or no matrix: fetch the head again")
    lm_head = tensors.pop("lm_head.weight", None)
    if lm_head is not None and list(lm_head.shape) != [target.vocabulary, target.hidden_size]:
        raise CheckpointError(
            f"{file}: tensor lm_head.weight is {list(lm_head.shape)}, {target_name}'s is "
            f"{[target.vocabulary, target.hidden_size]}: choose the head of this model"
        )
    required = _beside_weights(config, layer) | ({f"{fc}.bias"} if config.flag("fusion_bias") else set())
    naming = Naming(layer, fc, required=frozenset(required), window=_window(config))
    return eagle2.load(tensors, config, file, target, target_name, naming)


def _load_eagle3(
    tensors: dict[str, Tensor], config: Config, file: Path, target: Target, target_name: str
) -> Eagle3Head:
    """Some converted heads kept the published name of the layer."""
    layer = eagle3.layer_of(tensors, "layers.0")
    lm_head = tensors.get("lm_head.weight")
    if lm_head is not None and lm_head.dim() == 2:
        drafted = config.count("draft_vocab_size", len(lm_head))
        if drafted != len(lm_head):
            raise CheckpointError(
                f"{file}: tensor lm_head.weight has {len(lm_head)} rows, and draft_vocab_size is {drafted}: "
                "fetch the head again"
            )
    naming = Naming(layer, required=frozenset(_beside_weights(config, layer)), window=_window(config))
    return eagle3.load(tensors, config, file, target, target_name, naming)


def _kind(config: Config) -> str:
    kind = config.given().get(TYPE) or config.section(SPECULATORS).given().get("algorithm")
    if not isinstance(kind, str) or kind not in METHODS:
        raise CheckpointError(
            f"{config.file}: {TYPE} {kind} is not supported: choose a head of type {' or '.join(METHODS)}"
        )
    return kind


def _check_fields(config: Config) -> None:
    """Every field that is set is read here, or says nothing of the network."""
    kind, layer = _kind(config), config.section(LAYER)
    known = OF_A_HEAD[kind] | SAYS_NOTHING | {TYPE, SPECULATORS, LAYER, "model_type"}
    for name, value in config.given().items():
        if name == "transformer_layer_architecture" and value in ARCHITECTURES:
            continue
        if name not in known:
            raise CheckpointError(_not_supported(config, name, value))
    for name, value in layer.given().items():
        if name in VALUES and value not in VALUES[name]:
            raise CheckpointError(_not_supported(config, f"{LAYER}.{name}", value))
        if name not in OF_A_LAYER | SAYS_NOTHING | VALUES.keys():
            raise CheckpointError(_not_supported(config, f"{LAYER}.{name}", value))


def _not_supported(config: Config, name: str, value: object) -> str:
    return f"{config.file}: {name} {value!r:.60} is not supported for draft heads"


def _beside_weights(config: Config, layer: str) -> set[str]:
    """Tensors that the layer has by its config."""
    names: set[str] = set()
    if config.flag("attention_bias"):
        names |= {f"{layer}.self_attn.{letter}_proj.bias" for letter in "qkvo"}
    if config.flag("mlp_bias"):
        names |= {f"{layer}.mlp.{name}_proj.bias" for name in ("gate", "up", "down")}
    if config.section(LAYER).given().get("model_type") == "qwen3":
        names |= {f"{layer}.self_attn.{letter}_norm.weight" for letter in "qk"}
    return names


def _window(config: Config) -> int | None:
    """How far back the layer sees, by its type; None for all."""
    types = config.given().get("layer_types", ["full_attention"])
    if types == ["sliding_attention"]:
        return config.count("sliding_window", None)
    if types != ["full_attention"]:
        raise CheckpointError(_not_supported(config, f"{LAYER}.layer_types", types))
    return None
