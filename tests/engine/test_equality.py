"""The promise: whatever drafts, the tokens are those of plain decoding, and those are transformers' own."""

from __future__ import annotations

import pytest
import torch

from engine import GenerationSettings
from tests.engine.conftest import DRAFTERS, Bench
from tests.engine.reference import reference_reply
from tests.engine.stubs import plain_reply, rounds

PROMPTS = ([7], [3, 14, 15, 9, 26, 5], [(5 * i + i * i) % 90 for i in range(40)])
SAMPLINGS = {
    "greedy": {},
    "T0.7": {"temperature": 0.7},
    "T1-top-p": {"temperature": 1.0, "top_p": 0.9},
    "T1-top-k-min-p": {"temperature": 1.0, "top_k": 20, "min_p": 0.05},
}
_plain: dict[tuple[int, int, GenerationSettings], list[int]] = {}


def make_settings(sampling: str, penalty: float) -> GenerationSettings:
    return GenerationSettings(**SAMPLINGS[sampling], repetition_penalty=penalty, max_new_tokens=40, seed=1234)


def plain(bench: Bench, prompt_index: int, settings: GenerationSettings) -> list[int]:
    """Plain decoding by a fresh engine, once per model, prompt and settings."""
    key = (id(bench), prompt_index, settings)
    if key not in _plain:
        _plain[key] = plain_reply(bench.target, PROMPTS[prompt_index], settings)
    return _plain[key]


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("method", DRAFTERS)
def test_drafting_never_changes_the_text(bench: Bench, method: str, sampling: str, penalty: float) -> None:
    """Any error of mask, position, compaction, acceptance, noise or penalty prefix shows as another token."""
    settings = make_settings(sampling, penalty)
    for index, prompt in enumerate(PROMPTS):
        expected = plain(bench, index, settings)
        bench.oracle.future = prompt + expected
        found = [token for r in rounds(bench.engine, prompt, settings, method) for token in r.new]
        assert found == expected
        assert len(found) == 40


@pytest.mark.parametrize("method", DRAFTERS)
@pytest.mark.parametrize("name", ["mixtral", "qwen3-moe"])
def test_nor_that_of_routed_models(benches: dict[str, Bench], name: str, method: str) -> None:
    """Experts chosen over all nodes. At few settings, since transformers runs them slowly."""
    bench = benches[name]
    settings = make_settings("T0.7", 1.3)
    expected = plain(bench, 1, settings)
    bench.engine.reset()
    bench.oracle.future = PROMPTS[1] + expected
    assert [token for r in rounds(bench.engine, PROMPTS[1], settings, method) for token in r.new] == expected


@pytest.mark.parametrize(
    "method",
    ["eagle2", "eagle2-sized", "pld", "pld-tree", "lookahead", "draft-model", "noise", "oracle"],
)
def test_the_suite_exercises_acceptance(benches: dict[str, Bench], method: str) -> None:
    """An equality suite in which nothing is ever accepted, or all of it, would prove nothing."""
    accepted, refused = 0, 0
    settings = make_settings("T0.7", 1.0)
    for bench in benches.values():
        for index, prompt in enumerate(PROMPTS):
            bench.engine.reset()
            bench.oracle.future = prompt + plain(bench, index, settings)
            for r in rounds(bench.engine, prompt, settings, method):
                accepted += len(r.path) - 1
                refused += len(r.tree) > 1 and len(r.path) == 1
    assert accepted >= 5
    assert refused >= 5


def test_sized_trees_are_of_every_size(bench: Bench) -> None:
    """Sizes that do not vary, so that the equality is one of static trees once more."""
    trees = [
        r.tree
        for prompt in PROMPTS
        for r in rounds(bench.engine, prompt, make_settings("T0.7", 1.0), "eagle2-sized")
        if r.index
    ]
    sized = [tree for tree in trees if tree.growth]
    sizes = {len(tree) - 1 for tree in sized}
    assert 0 in sizes  # drafted, and plain decoding found faster
    assert 20 in sizes
    assert len(sizes) >= 5
    assert len({max(tree.depths) for tree in sized}) >= 3
    assert sum(len(tree) == 1 and not tree.growth for tree in trees) >= 5  # rested
    assert all(tree.sizing and len(tree) == tree.sizing.nodes + 1 for tree in sized)


def test_oracle_paths_are_scattered_and_long(bench: Bench) -> None:
    """Compaction of a path that happens to be a prefix moves nothing: the oracle's paths must not be."""
    settings = make_settings("greedy", 1.0)
    bench.oracle.future = PROMPTS[1] + plain(bench, 1, settings)
    paths = [r.path for r in rounds(bench.engine, PROMPTS[1], settings, "oracle")]
    assert max(len(path) for path in paths) == 5
    assert len({len(path) for path in paths}) >= 3
    assert all(path != list(range(len(path))) for path in paths if len(path) > 1)


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_plain_greedy_is_transformers_generate(bench: Bench, penalty: float) -> None:
    """A loop that agrees only with itself: prefill, positions or the penalty's prefix may be off alike."""
    for index, prompt in enumerate(PROMPTS):
        ids = torch.tensor([prompt])
        expected = bench.target.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),  # else inferred from a pad token
            do_sample=False,
            max_new_tokens=40,
            repetition_penalty=penalty,
        )
        assert plain(bench, index, make_settings("greedy", penalty)) == expected[0, len(prompt) :].tolist()


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_plain_sampling_is_the_textbook_draw(bench: Bench, sampling: str, penalty: float) -> None:
    """Filters in another order or over other tokens, noise of another position: all drafters would share it.

    The reference filters and draws in numpy's float64 over a forward without any cache.
    """
    settings = make_settings(sampling, penalty)
    for index, prompt in enumerate(PROMPTS[:2]):
        assert plain(bench, index, settings) == reference_reply(bench.target.model, prompt, settings)


def test_settings_and_seeds_matter(llama: Bench) -> None:
    """Settings that never reach the sampler would pass every equality."""
    texts = [plain(llama, 1, make_settings(s, penalty)) for s in SAMPLINGS for penalty in (1.0, 1.3)]
    seeds = [GenerationSettings(temperature=1.0, max_new_tokens=40, seed=seed) for seed in (0, 1, 2**63 - 1)]
    texts += [plain_reply(llama.target, PROMPTS[1], settings) for settings in seeds]
    assert len({tuple(text) for text in texts}) == len(texts)
