"""The choice of the number of threads."""

import pytest
import torch

from engine import Engine, StockTarget, pick_threads, threads
from tests.engine.conftest import Bench


@pytest.mark.parametrize("fastest", [1, 2, 3])
def test_the_fastest_count_is_set(llama: Bench, monkeypatch: pytest.MonkeyPatch, fastest: int) -> None:
    """Catches a choice that is made and not applied, or the slowest count taken for the fastest."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    tried: list[int] = []

    def seconds(engine: Engine, prompt: list[int], count: int) -> float:
        tried.append(count)
        return 0.1 if count == fastest else 1.0

    monkeypatch.setattr(threads, "_seconds", seconds)
    try:
        assert pick_threads(Engine(StockTarget(llama.target.model)), [1, 2, 3]) == fastest
        assert torch.get_num_threads() == fastest
        assert tried == [1, 2, 3]
    finally:
        torch.set_num_threads(before)


def test_measuring_leaves_no_trace(llama: Bench) -> None:
    """Catches tokens of the measurement that stay in the caches of the conversation."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    engine = Engine(StockTarget(llama.target.model))
    try:
        assert pick_threads(engine, [1, 2, 3]) in (1, 2)
        assert (engine.tokens, engine.target.length) == ([], 0)
    finally:
        torch.set_num_threads(before)
