"""Targets with 8- or 4-bit weights, by bitsandbytes: what it is told, and the fp32 model it stands for."""

from __future__ import annotations

import logging
from typing import Any, Literal

import torch
from torch import nn
from transformers import BitsAndBytesConfig, PreTrainedModel

from engine.errors import SettingsError, UnsupportedModelError

Quantization = Literal["none", "int8", "nf4"]
DEVICES = ("cuda", "cpu")  # where its kernels are
BLOCK = 64  # weights that share a scale in nf4


def quantization_config(
    name: Quantization, dtype: torch.dtype, device: torch.device
) -> BitsAndBytesConfig | None:
    """What transformers is told; None without quantization. Raises SettingsError.

    int8 has no outlier columns: they would be chosen over all rows of a forward, so that a row's result
    depended on the other nodes of its tree.
    """
    if name == "none":
        return None
    if device.type not in DEVICES:
        raise SettingsError(f"{name} weights need a CUDA GPU or the CPU, not {device}: leave --quant out")
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of every product's casts
    if name == "int8":
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)


def quantization_of(model: PreTrainedModel) -> Quantization:
    """As which `quantization_config` knows it."""
    config = getattr(model.config, "quantization_config", None)
    if not isinstance(config, BitsAndBytesConfig):
        return "none"
    return "int8" if config.load_in_8bit else "nf4"


def keep_rows_apart(model: PreTrainedModel) -> None:
    """Have int8 weights that were published as such multiply without outlier columns, as ours do."""
    if quantization_of(model) == "int8":
        model.config.quantization_config.llm_int8_threshold = 0.0
        for layer in quantized_layers(model):
            state: Any = layer.state
            state.threshold = 0.0


def check_widths(model: PreTrainedModel) -> None:
    """Raise UnsupportedModelError where bitsandbytes' nf4 product on a CPU would fail.

    Its blocks must not reach from one row of the weights into the next.
    """
    if quantization_of(model) == "nf4" and model.device.type == "cpu":
        for width in {layer.in_features for layer in quantized_layers(model)}:
            if width % BLOCK:
                raise UnsupportedModelError(
                    f"nf4 on a CPU needs layers whose widths are multiples of {BLOCK}, and this model has "
                    f"one of {width}: use --quant int8 or none"
                )


def quantized_share(model: PreTrainedModel) -> float:
    """Which part of the layers' weights is quantized: bitsandbytes leaves experts, which are no `nn.Linear`s.

    Embeddings and the LM head stay in any case, and do not count.
    """
    ends = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    plain = sum(w.numel() for w in model.parameters() if id(w) not in ends and w.is_floating_point())
    quantized = sum(m.in_features * m.out_features for m in quantized_layers(model))
    return quantized / (quantized + plain)


def quantized_layers(model: PreTrainedModel) -> list[nn.Linear]:
    """The products with quantized weights."""
    layers = (m for m in model.modules() if isinstance(m, nn.Linear))
    return [m for m in layers if not m.weight.is_floating_point()]


def dequantized(model: PreTrainedModel) -> PreTrainedModel:
    """A fresh quantized model, with its weights as the fp32 numbers that they stand for."""
    return model.dequantize(dtype=torch.float32).float()
