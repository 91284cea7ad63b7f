"""Noise that is a function of its key, and draws that follow the distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from engine import GenerationSettings, Sampler
from engine.sampling import gumbel, hash_bits
from tests.engine.reference import gumbel_noise, processed, softmax, token_bits

SEEDS = (0, 1, 1234, 2**32 + 5, 2**63 - 1)
POSITIONS = (0, 1, 77, 131071)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("position", POSITIONS)
def test_bits_are_splitmix64(seed: int, position: int) -> None:
    """An arithmetic shift, a wrong constant or an overflow: other text on another device or version."""
    found = [bits % 2**64 for bits in hash_bits(seed, position, 40).tolist()]
    assert found == [token_bits(seed, position, token) for token in range(40)]


def test_pinned_bits() -> None:
    """A change of the hash that the reference in the tests goes along with: old seeds would give new text."""
    assert [bits % 2**64 for bits in hash_bits(0, 0, 3).tolist()] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]  # the first outputs of SplitMix64 from state 0, as published
    assert [bits % 2**64 for bits in hash_bits(42, 1000, 2).tolist()] == [
        0xBE77FFC75E5695CA,
        0x2AD713EB9D7404E4,
    ]


def test_noise_is_the_logarithm_of_the_bits() -> None:
    """Noise of another shape than Gumbel's, or in single precision, which has no tail."""
    noise = gumbel(9, 3, 500)
    assert noise.dtype == torch.float64
    expected = torch.tensor([gumbel_noise(9, 3, token) for token in range(500)], dtype=torch.float64)
    torch.testing.assert_close(noise, expected, rtol=1e-12, atol=1e-12)


def test_noise_is_finite_and_centred() -> None:
    """log(0) at either end makes one token certain or impossible."""
    noise = torch.cat([gumbel(seed, position, 50000) for seed in (0, 7) for position in range(5)])
    assert noise.isfinite().all()
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)  # Euler's constant
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, abs=0.02)


@pytest.mark.parametrize("bits", [0, -1, 2047, 2048])
def test_noise_is_finite_at_the_ends(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All bits zero or one, once in 2**53 draws: the chance test above would never meet it."""
    monkeypatch.setattr("engine.sampling.hash_bits", lambda *args: torch.tensor([bits]))
    assert gumbel(0, 0, 1).isfinite().all()


def test_noise_depends_on_all_of_its_key() -> None:
    """Two positions, seeds or tokens that share their noise: loops, or the same reply for several seeds."""
    rows = torch.stack([hash_bits(seed, position, 64) for seed in range(8) for position in range(8)])
    assert len(rows.flatten().unique()) == rows.numel()


def test_noise_of_a_token_does_not_depend_on_the_vocabulary() -> None:
    """A padded vocabulary would change every text."""
    assert torch.equal(hash_bits(3, 4, 100)[:60], hash_bits(3, 4, 60))


def test_draws_follow_the_distribution() -> None:
    """Chi-square of 4000 draws against softmax, over seeds and over positions; fixed, so no chance left."""
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0, 0.5, -0.5])
    p = logits.double().softmax(-1)
    for keys in ([(seed, 10) for seed in range(4000)], [(10, position) for position in range(4000)]):
        counts = torch.zeros(6, dtype=torch.float64)
        for seed, position in keys:
            counts[(logits + gumbel(seed, position, 6)).argmax()] += 1
        chi2 = ((counts - 4000 * p) ** 2 / (4000 * p)).sum().item()
        assert chi2 < 15.1  # 99 % of the distribution with 5 degrees of freedom


def test_neighbouring_positions_are_independent() -> None:
    """A hash whose streams overlap draws the same token again: pairs of draws against the product."""
    logits = torch.tensor([0.3, 0.0, -0.4])
    p = logits.double().softmax(-1)
    counts = torch.zeros(3, 3, dtype=torch.float64)
    for seed in range(3000):
        first, second = ((logits + gumbel(seed, position, 3)).argmax() for position in (5, 6))
        counts[first, second] += 1
    expected = 3000 * p[:, None] * p[None]
    assert ((counts - expected) ** 2 / expected).sum().item() < 20.1  # 99 %, 8 degrees of freedom


def test_pick_uses_the_absolute_position() -> None:
    """Noise keyed by call or by round would differ between drafters."""
    sampler = Sampler(GenerationSettings(temperature=1.0, seed=4))
    logits = torch.zeros(50)
    picks = {n: sampler.pick(logits, [0] * n) for n in (200, 3, 90, 3, 200)}  # also after rows were dropped
    assert picks == {n: int(gumbel(4, n, 50).argmax()) for n in picks}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ties_go_to_the_lowest_id(dtype: torch.dtype) -> None:
    """A tie that is broken by the number of rows or the device."""
    logits = torch.zeros(3, 3000, dtype=dtype)
    logits[0, [17, 900, 2999]] = 5.0
    logits[1, [2998, 2999]] = 5.0
    sampler = Sampler(GenerationSettings())
    assert sampler.pick_all(logits, [0, 1, 1], 5) == [17, 2998, 0]
    assert [sampler.pick(row, [1]) for row in logits] == [17, 2998, 0]


def test_all_nodes_at_once_only_where_no_prefix_matters() -> None:
    """A batch of argmaxes that leaves out the penalty or the noise."""
    logits, depths = torch.randn(4, 20, generator=torch.Generator().manual_seed(0)), [0, 1, 1, 2]
    assert Sampler(GenerationSettings()).pick_all(logits, depths, 5) == logits.argmax(-1).tolist()
    assert Sampler(GenerationSettings(repetition_penalty=1.1)).pick_all(logits, depths, 5) is None
    assert Sampler(GenerationSettings(temperature=0.5)).pick_all(logits, depths, 5) is None


FILTERS = [
    {},
    {"temperature": 0.5},
    {"top_k": 7},
    {"top_k": 500},
    {"top_p": 0.6},
    {"min_p": 0.2},
    {"temperature": 1.7, "top_k": 30, "top_p": 0.8, "min_p": 0.1, "repetition_penalty": 1.4},
    {"temperature": 0.3, "top_p": 0.05},
    {"min_p": 1.0},
    {"top_k": 1},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_probability_is_that_of_the_filtered_distribution(filters: dict[str, float]) -> None:
    """Shown probabilities from before the filters, or not renormalised after them."""
    settings = GenerationSettings(**{"temperature": 1.0, **filters})
    logits = 3 * torch.randn(60, generator=torch.Generator().manual_seed(8))
    prefix = [3, 3, 9, int(logits.argmax())]
    p = Sampler(settings).probability(logits, prefix, list(range(60)))
    assert sum(p) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(p, softmax(processed(logits.numpy(), prefix, settings)), atol=1e-6)


def test_probability_at_temperature_zero_is_the_plain_softmax() -> None:
    """A one-hot, or a penalised softmax, would show nothing of the target's mind."""
    logits = torch.randn(30, generator=torch.Generator().manual_seed(8))
    sampler = Sampler(GenerationSettings(repetition_penalty=1.5))
    p = sampler.probability(logits, [1, 2], list(range(30)))
    np.testing.assert_allclose(p, softmax(logits.double().numpy()), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("temperature", [-0.1, math.nan, math.inf], [0, 5.0]),
        ("top_k", [-1], [0, 10**6]),
        ("top_p", [0, 1.1, -1, math.nan], [1e-3, 1]),
        ("min_p", [-0.1, 1.1, math.nan], [0, 1]),
        ("repetition_penalty", [0, -1, math.nan, math.inf], [0.5, 2]),
        ("max_new_tokens", [0, -3], [1]),
        ("seed", [-1, 2**63], [0, 2**63 - 1]),
    ],
)
def test_settings_are_checked(name: str, bad: list[float], good: list[float]) -> None:
    """A bad number that fails deep inside the loop, or samples nonsense; the message names the setting."""
    for value in bad:
        with pytest.raises(ValueError, match=f"^{name} must be"):
            GenerationSettings(**{name: value})
    for value in good:
        GenerationSettings(**{name: value})
