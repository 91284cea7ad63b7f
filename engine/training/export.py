"""Writes a trained head: of EAGLE as published, of Medusa and Hydra with the target's LM head."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.training.network import DraftNetwork
from engine.training.unrolled import Eagle3Network


def write_head(
    folder: Path, network: DraftNetwork, draft_vocab: Tensor, vocabulary: int, context: int
) -> None:
    """`config.json` and `model.safetensors`, in bf16.

    `draft_vocab` [D] target ids, sorted, of the target's `vocabulary`; `context` the target's, tokens. An
    EAGLE-3 head carries the draft vocabulary as `d2t` (offset of each draft id to its target id) and `t2d`,
    the others as `draft_vocab`.
    """
    tensors: dict[str, Tensor] = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in network.state_dict().items()
    }
    ids = draft_vocab.cpu()
    if isinstance(network, Eagle3Network):
        known = torch.zeros(vocabulary, dtype=torch.bool)
        known[ids] = True
        tensors |= {"d2t": ids - torch.arange(len(ids)), "t2d": known}
    elif len(ids) < vocabulary:
        tensors["draft_vocab"] = ids.int()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.safetensors"
    save_file(tensors, file, metadata={"format": "pt"})
    file.chmod(0o644)  # the library makes it private; a head is for everybody
    config = network.config() | {
        "max_position_embeddings": context,
        "vocab_size": vocabulary,
        "draft_vocab_size": len(ids),
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
