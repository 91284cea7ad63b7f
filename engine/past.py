"""What the layers of transformers' models see of the past, and the masks of a tree for each kind of them.

Some attend to all of it, some to a window, and some keep a state into which the past has gone for good.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, get_layer_types_and_kwargs

from engine.tree import DraftTree

FULL, SLIDING = "full_attention", "sliding_attention"  # transformers' names
WITHOUT_CACHE = "dummy"


class Past:
    """The caches and masks that suit one model."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._config = model.config
        self._dtype = model.dtype
        kinds, details = get_layer_types_and_kwargs(model.config.get_text_config(decoder=True))
        windows = {detail["sliding_window"] for detail in details if "sliding_window" in detail}
        self.kinds = set(kinds) - {WITHOUT_CACHE}
        self.window = min(windows, default=0)
        self.is_kept = self.kinds <= {FULL, SLIDING} and len(windows) <= 1 and not model._is_stateful
        """Whether rows of the past can be taken back, which refusing drafts needs."""

    def new_cache(self) -> DynamicCache:
        """An empty one. Also layers with a window keep all rows, or rewinding could not bring them back."""
        cache = DynamicCache(config=self._config)
        if self.is_kept:
            cache.layers = [
                DynamicLayer() if type(layer) is DynamicSlidingWindowLayer else layer
                for layer in cache.layers
            ]
        return cache

    def mask(self, tree: DraftTree, length: int, device: torch.device) -> Tensor | dict[str, Tensor]:
        """What the nodes see of `length` cached rows and of each other, [1, 1, N, length + N].

        By kind of layer where a model has several.
        """
        everything = torch.ones(len(tree), length + len(tree), dtype=torch.bool, device=device)
        everything[:, length:] = tree.mask.to(device)
        if SLIDING not in self.kinds:
            return self._as_wanted(everything)
        positions = torch.cat([torch.arange(length), length + torch.tensor(tree.depths)]).to(device)
        near = positions > positions[length:, None] - self.window
        windowed = self._as_wanted(everything & near)
        return {FULL: self._as_wanted(everything), SLIDING: windowed} if FULL in self.kinds else windowed

    def _as_wanted(self, visible: Tensor) -> Tensor:
        """SDPA applies a boolean mask; eager attention adds what it gets to the scores."""
        if self._config._attn_implementation == "eager":
            least = torch.finfo(self._dtype).min
            visible = torch.zeros_like(visible, dtype=self._dtype).masked_fill_(~visible, least)
        return visible[None, None]
