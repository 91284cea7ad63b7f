"""Medusa and Hydra: their networks and trees against plain products, and training against drafting."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

from engine import (
    MEDUSA_TREE,
    DraftTree,
    GenerationSettings,
    Hydra,
    HydraHeads,
    Medusa,
    MedusaHeads,
    Sampler,
    SettingsError,
    StockTarget,
    load_draft_head,
    medusa_tree,
)
from engine.training import Corpus, Synthesis, write_head
from engine.training.batches import load_batch
from engine.training.start import start_linear
from tests.engine.reference import gumbel_noise
from tests.engine.tiny import HIDDEN, make_model
from tests.engine.tiny_heads import (
    HYDRA_LAYOUTS,
    LAYOUTS,
    hydra_tensors,
    medusa_tensors,
    prefix_model,
    write_hydra,
    write_medusa,
)
from tests.engine.tiny_training import LAYOUT, STYLE, make_network, write

SETTINGS = {"greedy": GenerationSettings(), "sampled": GenerationSettings(temperature=0.8, seed=7)}
TOKENS = [3, 1, 4, 1, 5]


@pytest.fixture(scope="module")
def target() -> StockTarget:
    return StockTarget(make_model("llama"), (-1,))


def reference(
    kind: str, layout: str, target: StockTarget, features: Tensor, path: list[int]
) -> tuple[Tensor, Tensor]:
    """Logits [D] and target ids [D] after the root and a drafted path, by products of the file's tensors."""
    tensors = (medusa_tensors if kind == "medusa" else hydra_tensors)(layout, target.vocabulary)
    tensors = {name: tensor.float() for name, tensor in tensors.items()}
    ids = torch.arange(target.vocabulary)
    if layout == "ours":  # the text's own tokens join those of its draft vocabulary
        ids = torch.cat((tensors["draft_vocab"].long(), torch.tensor(TOKENS))).unique()
    head, prefix, x = len(path) - 1, "" if kind == "medusa" else "hydra_mlp.", features[-1]
    if layout == "plus-plus":
        x = prefix_model(target.model)(inputs_embeds=features[None]).last_hidden_state[0, -1]
    if kind == "hydra":
        x = torch.cat((x, *target.embedding(torch.tensor(path))))
    layers = {"two-layers": (0, 1), "plus-plus": (1, 3)}.get(layout, (0,))
    for layer in layers:
        name, kept = f"{prefix}{head}.{layer}", x
        if kind == "hydra" and layer == layers[0]:
            kept = tensors[f"{name}.res_connection.weight"] @ x + tensors[f"{name}.res_connection.bias"]
        x = kept + F.silu(tensors[f"{name}.linear.weight"] @ x + tensors[f"{name}.linear.bias"])
    if layout == "ours":
        name = f"{prefix}{head}.to_lm_head"
        x = tensors[f"{name}.weight"] @ x + tensors[f"{name}.bias"]
    if layout in ("ours", "shared"):
        return target.lm_head.weight[ids] @ x, ids
    if kind == "hydra":
        name = f"hydra_lm_head.{head}.1" if layout == "plus-plus" else f"hydra_lm_head.{head}"
        return tensors[f"{name}.weight"] @ x + tensors[f"{name}.bias"], ids
    return tensors[f"{head}.{len(layers)}.weight"] @ x, ids


def scored(logits: Tensor, ids: Tensor, settings: GenerationSettings, depth: int) -> dict[int, float]:
    """Log-confidences by target id, best first: of the distribution, or of it and the noise to come."""
    if settings.temperature:
        position = len(TOKENS) + depth - 1
        noise = [gumbel_noise(settings.seed, position, token) for token in ids.tolist()]
        logits = (logits / settings.temperature).log_softmax(-1) + torch.tensor(noise)
    values, order = logits.log_softmax(-1).sort(descending=True)
    return dict(zip(ids[order].tolist(), values.tolist(), strict=True))


def drafted(folder: Path, target: StockTarget, features: Tensor, sampler: Sampler) -> DraftTree:
    head = load_draft_head(folder, target, "tiny")
    assert isinstance(head, MedusaHeads | HydraHeads)
    drafter = Medusa(head) if isinstance(head, MedusaHeads) else Hydra(head)
    for known in (2, 4, 3, 5):  # a prompt in two parts, and another that begins alike
        drafter.rewind(known - 2)
        drafter.observe(TOKENS[:known], features[: known - 1], torch.empty(1, 1), [0])
    return drafter.propose(TOKENS, sampler)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(
    ("kind", "layout"), [*product(["medusa"], LAYOUTS), *product(["hydra"], HYDRA_LAYOUTS)]
)
@torch.no_grad()
def test_the_published_tree(
    target: StockTarget, tmp_path: Path, kind: str, layout: str, settings: str
) -> None:
    """Another head, rank, embedding or place of the noise, or values along another path."""
    folder = (write_medusa if kind == "medusa" else write_hydra)(tmp_path, layout, target.model)
    features = torch.randn(len(TOKENS) - 1, HIDDEN, generator=torch.Generator().manual_seed(2))
    tree = drafted(folder, target, features, Sampler(SETTINGS[settings]))
    assert tree.values is not None
    tokens, parents = tree.host
    assert (tokens[0], tree.values[0].item()) == (TOKENS[-1], 0)
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        above, parent = [], parents[node]
        while parent >= 0:
            above.insert(0, tokens[parent])
            parent = parents[parent]
        logits, ids = reference(kind, layout, target, features, above)
        expected = scored(logits, ids, SETTINGS[settings], len(above))
        paths.append((*paths[parents[node]], list(expected).index(tokens[node])))
        confidence = (tree.values[node] - tree.values[parents[node]]).item()
        assert confidence == pytest.approx(expected[tokens[node]], abs=1e-4)
    assert set(paths[1:]) == set(MEDUSA_TREE)
    assert len(tree) == 64


def test_the_first_nodes_are_a_tree() -> None:
    """A node forgotten or mistyped: 63 of them, 10, 28, 23 and 2 by depth, parents first."""
    assert len(set(MEDUSA_TREE)) == 63
    assert [sum(len(path) == depth for path in MEDUSA_TREE) for depth in range(1, 5)] == [10, 28, 23, 2]
    for nodes, depth in product(range(1, 64), range(1, 5)):
        paths = medusa_tree(nodes, depth)
        assert len(paths) == min(nodes, sum(len(path) <= depth for path in MEDUSA_TREE))
        assert all(path[:-1] in {(), *paths} and len(path) <= depth for path in paths)


def test_a_tree_deeper_than_the_heads(target: StockTarget, tmp_path: Path) -> None:
    """A depth without a head, found out while drafting."""
    head = load_draft_head(write_medusa(tmp_path, "shared", target.model), target, "tiny")
    assert isinstance(head, MedusaHeads)
    with pytest.raises(SettingsError, match=r"\[0, 0, 0, 0, 0\] is longer than the 4 heads reach"):
        Medusa(head, tuple((0,) * depth for depth in range(1, 6)))


@pytest.mark.parametrize("kind", ["medusa", "hydra"])
@torch.no_grad()
def test_training_and_drafting_agree(target: StockTarget, tmp_path: Path, kind: str) -> None:
    """A head trained to guess one place and asked for another, or with its tokens in another order.

    Step j at pair i has to be what head j says of the feature j pairs before and the tokens since.
    """
    network = make_network(target, kind)
    random = torch.Generator().manual_seed(5)
    for parameter in network.parameters():  # large, so that all that is read matters
        parameter.copy_((0.2 * torch.randn(parameter.shape, generator=random)).bfloat16())
    write_head(tmp_path, network, torch.arange(target.vocabulary), target.vocabulary, 2048)
    head = load_draft_head(tmp_path, target, "tiny")
    assert isinstance(head, MedusaHeads | HydraHeads)
    tokens = torch.randint(target.vocabulary, (12,), generator=random)
    features = torch.randn(12, HIDDEN, generator=random)
    unrolled = network(target.embedding(tokens[None]), features[None, :-1], steps=4)
    for pair, step in product((3, 5, 10), range(4)):
        read = features[pair - step][None]
        if isinstance(head, HydraHeads):
            for token in tokens[pair - step + 1 : pair + 2]:
                read = head.extend(read, token[None])
        found = unrolled[step][0, pair] @ target.lm_head.weight.T
        torch.testing.assert_close(found[None], head.heads[step].logits(read), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["medusa", "hydra"])
def test_each_head_starts_at_the_feature_it_is_for(target: StockTarget, tmp_path: Path, kind: str) -> None:
    """A linear start solved for another place than the loss asks for."""
    corpus, network = Corpus(tmp_path), make_network(target, kind)
    corpus.add(0, write(Synthesis(target.model, LAYOUT, (-1,), rows=32, style=STYLE), 0))
    start_linear(network, target.embedding, corpus, corpus.places[0], longest=64)
    batch = load_batch(corpus, corpus.places[0], 64)
    with torch.no_grad():
        outputs = network(target.embedding(batch.tokens), batch.features[:, :-1], steps=4)
    final, real = batch.features[:, 1:], batch.real[:, 1:]
    for step, output in enumerate(outputs):
        rows = real[:, step:]
        error = (output[:, step:] - final[:, step:])[rows].square().mean()
        assert error < 0.95 * final[:, step:][rows].var()
        late = (output[:, step:-1] - final[:, step + 1 :])[real[:, step + 1 :]].square().mean()
        assert error < late
