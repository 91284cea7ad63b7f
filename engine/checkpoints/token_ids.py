"""Files that say which tokens a head may propose: rankings by frequency as FR-Spec has them, and our own."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.errors import CheckpointError, CorruptFileError

OURS = "draft_vocab"  # the tensor of our heads' files


def read_token_ids(file: Path, vocabulary: int, count: int | None = None) -> Tensor:
    """Token ids below `vocabulary`, sorted: the first `count` of a ranking, or all.

    FR-Spec's files (Zhao et al., 2025) are saved lists or tensors of ids, the most frequent first. Ours are
    safetensors, sorted already, so that none of them is first. Raises CheckpointError with one sentence.
    """
    ranked = file.suffix != ".safetensors"
    if not ranked and count is not None:
        raise CheckpointError(
            f"{file} is sorted by id and not by frequency, so the first {count} mean nothing: take all of it"
        )
    ids = _ids(_loaded(file), file)
    if count is not None and count > len(ids):
        raise CheckpointError(f"{file} has {len(ids)} token ids, fewer than the {count} asked for")
    ids = (ids if count is None else ids[:count]).sort().values
    twice = ids[1:][ids[1:] == ids[:-1]]
    if len(twice):
        raise CheckpointError(f"{file} has the token id {int(twice[0])} twice: fetch it again")
    if ids[0] < 0 or ids[-1] >= vocabulary:
        wrong = int(ids[0] if ids[0] < 0 else ids[-1])
        raise CheckpointError(
            f"{file} has the token id {wrong}, and the model's are below {vocabulary}: choose the file "
            "that was made for this model"
        )
    return ids


def _loaded(file: Path) -> object:
    """Whatever it holds. Never runs code that a file brings along."""
    if not file.is_file():
        raise CheckpointError(
            f"there is no file {file}: name one with token ids, such as FR-Spec's freq_32768.pt"
        )
    try:
        if file.suffix == ".safetensors":
            return load_file(file).get(OURS)
        return torch.load(file, map_location="cpu", weights_only=True)
    except Exception:
        raise CorruptFileError(f"{file} is no file of token ids, or damaged: fetch it again") from None


def _ids(loaded: object, file: Path) -> Tensor:
    """What was loaded as one row of whole numbers."""
    if isinstance(loaded, list) and all(type(one) is int for one in loaded):
        loaded = torch.tensor(loaded, dtype=torch.long)
    whole = isinstance(loaded, Tensor) and loaded.dtype in (torch.int32, torch.int64)
    if not isinstance(loaded, Tensor) or not whole or loaded.dim() != 1 or not len(loaded):
        raise CheckpointError(
            f"{file} holds no list of token ids: it should be a list or a tensor of whole numbers, the most "
            f"frequent token first, or a safetensors file with a {OURS}"
        )
    return loaded.long()
