"""Where the layers of a model go, as a plan of numbers."""

from __future__ import annotations

import pytest
import torch

from eagle_chat import spreading
from eagle_chat.catalogue import entry
from eagle_chat.errors import UsageError
from eagle_chat.fitting import Place, check_fit, placement
from eagle_chat.memory_need import Model, Placing, need
from eagle_chat.options import Options
from eagle_chat.placement import Parts, parts_of, place, place_anyway
from eagle_chat.sizes import GB
from eagle_chat.spreading import spread_over

PARTS = Parts(layers=8, layer=10, home=20, token=1, home_token=2, work=5)
GPUS = [torch.device("cuda", number) for number in range(2)]


def gpus(*gigabytes: float) -> Place:
    sizes = tuple(int(size * GB) for size in gigabytes)
    return Place(Placing("cuda", 2), sum(sizes), "GPUs", sizes)


def test_one_device_is_preferred():
    """Catches a model that is split although one GPU has it all, or sent to one that is full."""
    found = place(PARTS, [50, 115, 1000], [1])
    assert found is not None
    assert (found.home, set(found.layers), found.is_split) == (1, {1}, False)
    assert found.room == 1  # 10 bytes a token beside 105


def test_the_fewest_devices_are_taken_the_freest_first():
    """Catches layers out of order, home where there is no room for it, a third GPU without need."""
    found = place(PARTS, [60, 30, 80], [1])
    assert found is not None
    assert found.layers == tuple(sorted(found.layers, reverse=True))
    assert (found.home, set(found.layers)) == (2, {0, 2})


@pytest.mark.parametrize("free", [[70, 70], [90, 60], [60, 60, 60], [45, 45, 45, 45]])
def test_what_is_promised_has_room(free):
    """Catches a device that gets more than it has, and a token of room that is given away."""
    found = place(PARTS, free, [0])
    assert found is not None

    def overfull(tokens: int, layers: tuple[int, ...]) -> bool:
        home = PARTS.home + tokens * PARTS.home_token
        each = PARTS.layer + tokens * PARTS.token
        used = [5 + (home if n == found.home else 0) + layers.count(n) * each for n in range(len(free))]
        return any(size > room for size, room in zip(used, free, strict=True) if size > 5)

    assert len(found.layers) == 8
    assert not overfull(found.room, found.layers)
    assert overfull(found.room + 1, found.layers)


def test_what_does_not_fit_has_no_place_but_by_force():
    """Catches a plan that overfills in silence, and a search that never ends."""
    assert place(PARTS, [40, 40], [0]) is None
    assert place(PARTS, [70, 70], [1000]) is None
    forced = place_anyway(PARTS, [40, 40])
    assert set(forced.layers) == {0, 1}


def test_the_parts_add_up_to_the_need():
    """Catches a split that counts weights, caches or the head twice, or not at all."""
    for alias in ("llama3-70b", "mixtral-8x7b", "qwen3-1.7b"):
        known = entry(alias)
        model = Model(known.shape, known.parameters, known.context)
        for placing in (Placing("cuda", 2), Placing("cuda", 2, "nf4")):
            needed = need(model, placing, 10**9)
            parts = parts_of(model, placing, needed)
            assert parts.home + parts.layers * parts.layer == needed.weights + needed.head
            assert parts.home_token + parts.layers * parts.token == needed.token


def test_several_gpus_count_together():
    """Catches 70B refused on a machine that holds it, or let in where shares are too large."""
    assert check_fit(Options(model="llama3-70b"), gpus(80, 80, 80)) == []
    with pytest.raises(UsageError, match="140"):
        check_fit(Options(model="llama3-70b"), gpus(70, 70))
    assert check_fit(Options(model="llama3-8b"), gpus(2, 24)) == []
    found = placement(Options(model="llama3-8b"), gpus(2, 24))
    assert found is not None
    assert not found.is_split


def test_devices_are_named(monkeypatch):
    """Catches layers that go to the GPU of another number, and a split that nobody is told of."""
    options = Options(model="llama3-8b")
    monkeypatch.setattr(spreading, "place_on", lambda *asked: gpus(10, 12))
    spread = spread_over(options, torch.bfloat16, GPUS)
    assert spread.home == GPUS[1]
    assert len(spread.layers) == 32
    assert spread.name == "cuda:1+cuda:0"
    (note,) = spread.notes
    assert f"{spread.layers.count(GPUS[1])} on cuda:1" in note
    monkeypatch.setattr(spreading, "place_on", lambda *asked: gpus(10, 24))
    assert spread_over(options, torch.bfloat16, GPUS) == spreading.Spread(GPUS[1])
    assert spread_over(options, torch.bfloat16, GPUS[:1]).name == "cuda:0"
