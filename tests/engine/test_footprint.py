"""What the cache takes, against the tensors themselves."""

import torch

from engine import StockTarget
from engine.footprint import token_bytes
from tests.engine.tiny import MODELS, make_model


def test_bytes_of_a_token() -> None:
    """Query heads counted for key heads, or one of keys and values forgotten."""
    for name in MODELS:
        target = StockTarget(make_model(name))
        with torch.inference_mode():
            list(target.extend([3, 4, 5], 512))
        cached = sum(layer.keys.nbytes + layer.values.nbytes for layer in target.cache.layers)
        assert token_bytes(target.model) == cached / 3
