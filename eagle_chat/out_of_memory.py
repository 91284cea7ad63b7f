"""Memory that ran out although the estimate said it would not: recognised, and said in one sentence."""

from __future__ import annotations

import torch

from eagle_chat.errors import EagleChatError

# What PyTorch's allocators for the CPU and Apple's GPUs say, which raise plain RuntimeErrors.
SIGNS = ("can't allocate memory", "not enough memory", "backend out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whichever allocator it comes from."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def reply_ended(device: str, tokens: int) -> EagleChatError:
    """For a reply that ended in a conversation of so many tokens. Gives back what nothing uses any more."""
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    return EagleChatError(
        f"memory on {device} ran out after {tokens:,} tokens of conversation, and the reply ended: start a "
        "new chat, choose a smaller model, shorter replies (--max-new-tokens) or smaller trees (--nodes)"
    )


def loading_ended(model: str) -> EagleChatError:
    """For weights that did not find room."""
    return EagleChatError(
        f"memory ran out while {model} was loaded: close what else uses it, or choose a smaller model "
        "(`eagle-chat models` says what fits)"
    )
