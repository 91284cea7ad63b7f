"""The target's forwards: a node sees what a plain forward of its path would, before and after compaction."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, PreTrainedModel

from engine import DraftTree, StockTarget, UnsupportedModelError
from engine.target import shared_prefix
from tests.engine.stubs import make_tree
from tests.engine.tiny import MODELS, fill, make_model

PROMPT = [(3 * i + i * i) % 90 for i in range(20)]
SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return make_model(request.param)


@pytest.fixture(autouse=True)
def _inference() -> object:
    """As the engine's loop runs."""
    with torch.inference_mode():
        yield


def plain(model: PreTrainedModel, tokens: list[int]) -> tuple[Tensor, Tensor]:
    """Logits and final normed states of every position, without a cache."""
    outputs = model(input_ids=torch.tensor([tokens]), use_cache=False, output_hidden_states=True)
    return outputs.logits[0], outputs.hidden_states[-1][0]


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def read(target: StockTarget, tokens: list[int], chunk: int = 512) -> Tensor:
    """Last logits after `tokens`, [V]."""
    return [part.logits for part in target.extend(tokens, chunk)][-1][0]


def random_tree(seed: int, nodes: int = 16) -> DraftTree:
    rng = random.Random(seed)
    parents = [-1] + [rng.randrange(node) for node in range(1, nodes)]
    return make_tree([rng.randrange(90) for _ in range(nodes)], parents)


def path_to(tree: DraftTree, node: int) -> list[int]:
    path = [node]
    while path[-1]:
        path.append(tree.host.parents[path[-1]])
    return path[::-1]


@pytest.mark.parametrize("prompt", [[], PROMPT[:1], PROMPT])
@pytest.mark.parametrize("seed", range(3))
def test_a_node_sees_its_path_alone(model: PreTrainedModel, prompt: list[int], seed: int) -> None:
    """Mask or positions of the tree forward: each node's logits and features must be those of its path."""
    target = StockTarget(model, taps=(-1,))
    if prompt:
        read(target, prompt)
    tree = random_tree(seed)
    logits, features = target.verify(tree)
    for node in range(len(tree)):
        tokens = prompt + [tree.host.tokens[i] for i in path_to(tree, node)]
        expected_logits, expected_features = plain(model, tokens)
        close(logits[node], expected_logits[-1])
        close(features[node], expected_features[-1])


@pytest.mark.parametrize("seed", range(4))
def test_keep_leaves_the_path(model: PreTrainedModel, seed: int) -> None:
    """Compaction that keeps other rows, the wrong number of them, or overwrites one before it is read."""
    target = StockTarget(model)
    read(target, PROMPT)
    tokens = list(PROMPT)
    for step in range(3):
        tree = random_tree(10 * seed + step)
        target.verify(tree)
        path = path_to(tree, max(range(len(tree)), key=lambda node: tree.depths[node]))
        target.keep(path[: len(path) - step % 2])
        tokens += [tree.host.tokens[node] for node in path[: len(path) - step % 2]]
        assert target.length == len(tokens)
        assert {layer.get_seq_length() for layer in target.cache.layers} == {len(tokens)}
    close(read(target, [5, 6]), plain(model, [*tokens, 5, 6])[0][-1])


def test_rewind_forgets(model: PreTrainedModel) -> None:
    """Rows of forgotten tokens that are attended to later; rewinding to nothing, to everything, twice."""
    target = StockTarget(model)
    target.rewind(0)
    for length in (20, 19, 7, 7, 1, 0):
        list(target.extend(PROMPT[target.length :]))
        target.rewind(length)
        assert target.length == length
        close(read(target, [5, 6]), plain(model, [*PROMPT[:length], 5, 6])[0][-1])
        target.rewind(length)


def test_rewind_drops_an_unfinished_tree(model: PreTrainedModel) -> None:
    """A tree that was verified and never kept must not stay in the cache."""
    target = StockTarget(model)
    read(target, PROMPT)
    target.verify(random_tree(1))
    target.rewind(len(PROMPT))
    close(read(target, [5]), plain(model, [*PROMPT, 5])[0][-1])


@pytest.mark.parametrize("chunk", [1, 3, 19, 20, 21])
def test_chunks_are_one_forward(model: PreTrainedModel, chunk: int) -> None:
    """Positions or masks that restart at a chunk's boundary; features of the last chunk only."""
    target = StockTarget(model, taps=(-1,))
    parts = list(target.extend(PROMPT, chunk))
    logits, features = plain(model, PROMPT)
    assert [part.done for part in parts] == [min(end, 20) for end in range(chunk, 20 + chunk, chunk)]
    for part in parts:
        close(part.logits[0], logits[part.done - 1])
    close(torch.cat([part.features for part in parts]), features)
    assert target.length == 20


@pytest.mark.parametrize("length", [511, 512, 513, 1025])
def test_the_default_chunk(length: int) -> None:
    """An off-by-one at the real chunk size."""
    model = make_model("llama")
    tokens = [(7 * i + i * i) % 90 for i in range(length)]
    target = StockTarget(model)
    parts = list(target.extend(tokens))
    assert [part.done for part in parts] == [*range(512, length, 512), length]
    close(parts[-1].logits[0], plain(model, tokens)[0][-1])


def test_taps_are_concatenated_in_order() -> None:
    """Several hidden states in another order, or numbered from another layer."""
    model = make_model("llama")
    target = StockTarget(model, taps=(0, 1, -1))
    (part,) = target.extend(PROMPT)
    states = model(input_ids=torch.tensor([PROMPT]), output_hidden_states=True, use_cache=False).hidden_states
    close(part.features, torch.cat([states[0][0], states[1][0], states[2][0]], dim=-1))
    assert part.features.shape == (20, 96)


def test_without_taps_no_features() -> None:
    """Hidden states that are collected though nobody reads them."""
    target = StockTarget(make_model("llama"))
    (part,) = target.extend(PROMPT)
    assert part.features is None
    assert target.verify(random_tree(0))[1] is None


def test_mistral_without_a_window_is_taken() -> None:
    """A refusal by family instead of by what the model does."""
    model = AutoModelForCausalLM.from_config(MistralConfig(sliding_window=None, **SMALL)).eval()
    fill(model, 1)
    target = StockTarget(model)
    close(read(target, PROMPT, 7), plain(model, PROMPT)[0][-1])


def test_other_attention_is_refused() -> None:
    """FlashAttention takes no mask of a tree: wrong text without a sign."""
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL), attn_implementation="flex_attention")
    with pytest.raises(UnsupportedModelError, match="not flex_attention"):
        StockTarget(model)


def test_what_the_target_says_about_its_model() -> None:
    """Sizes that decide whether a head fits, read from the wrong place."""
    target = StockTarget(make_model("qwen3", context=333))
    assert (target.vocabulary, target.hidden_size, target.context) == (131, 32, 333)
    assert target.embedding.weight.shape == target.lm_head.weight.shape == (131, 32)


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [
        ([], [], 0),
        ([1], [], 0),
        ([1, 2], [1, 2], 2),
        ([1, 2], [1, 2, 3], 2),
        ([1, 2, 4], [1, 2, 3], 2),
        ([1], [2], 0),
    ],
)
def test_shared_prefix(a: list[int], b: list[int], shared: int) -> None:
    """One token too many reuses a row of another text."""
    assert shared_prefix(a, b) == shared
