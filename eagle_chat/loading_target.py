"""The target itself: its tokenizer, its weights, and what the user should know about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagle_chat.chat_layouts import layout_for
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.options import Options, Quant
from eagle_chat.spreading import Spread
from eagle_chat.weights import WeightsLocation

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast

    from eagle_chat.text import Prompts
    from engine import Target


def load_tokenizer(location: WeightsLocation) -> PreTrainedTokenizerFast:
    """A fast one. Raises EagleChatError or UsageError."""
    from transformers import AutoConfig, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()  # its advice is for programmers
    what = "config.json"
    try:
        config = AutoConfig.from_pretrained(location.folder, trust_remote_code=False)
        what = "tokenizer"
        tokenizer = AutoTokenizer.from_pretrained(location.folder, config=config, trust_remote_code=False)
    except Exception as error:  # the library's kinds share no base, and all mean that there is no tokenizer
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise EagleChatError(
            f"the {what} in {location.folder} cannot be used ({reason}): copy or download the model again, "
            "or choose another"
        ) from error
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise UsageError(f"{location.name} has no fast tokenizer: choose a model with a tokenizer.json")
    return tokenizer


def load_prompts(options: Options, location: WeightsLocation) -> tuple[Prompts, tuple[str, ...]]:
    """How the target is prompted, and what to tell about a layout that is not its tokenizer's own."""
    from eagle_chat.text import Prompts

    tokenizer = load_tokenizer(location)
    layout = None if tokenizer.chat_template else layout_for(options.model, options.head)
    if layout is None:
        return Prompts(tokenizer, location.name), ()
    return Prompts(tokenizer, location.name, layout.template), layout.notes


def load_target(
    options: Options, location: WeightsLocation, dtype: torch.dtype, spread: Spread
) -> tuple[Target, list[str]]:
    """The target and what to tell the user about it."""
    from engine import load_model, make_target, quantization_of, quantized_share

    model = load_model(location.folder, dtype, spread.home, options.quant.value, spread.layers)
    target = make_target(model, options.target.value)
    found = quantization_of(model)
    if options.quant is not Quant.NONE and found != options.quant:
        return target, [
            f"The weights of {location.name} are {found} already: --quant {options.quant} changes nothing."
        ]
    if options.quant is Quant.NONE or (share := quantized_share(model)) > 0.5:
        return target, []
    return target, [
        f"Only {share:.0%} of the weights are {options.quant}: bitsandbytes leaves experts alone."
    ]


def why_plain(target: Target) -> str:
    """Why it verifies no trees."""
    from engine import StockTarget

    if isinstance(target, StockTarget) and not target.past.is_kept:
        return "some of its layers keep a state instead of the past, which cannot be taken back"
    return "its layers do not follow the mask of a draft tree"


def check_drafts(target: Target, name: str) -> None:
    """Raise UsageError where plain decoding has nothing to be compared with."""
    if not target.takes_trees:
        raise UsageError(
            f"{name} cannot verify drafts ({why_plain(target)}), so there is nothing to measure plain "
            "decoding against: choose another model"
        )
