"""Trees and walks of the reference implementation, reproduced exactly; tests/data/golden_trees/README.md."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from engine import DraftTree, Eagle2, GenerationSettings, Sampler, load_eagle_head
from engine.verify import accept
from tests.engine.stubs import make_tree
from tests.engine.tiny import write_head

FOLDER = Path(__file__).parents[1] / "data" / "golden_trees"
SAMPLER = Sampler(GenerationSettings())


def golden_files() -> list[Path]:
    """Of the repository, and of the folder EAGLE_GOLDEN_TREES."""
    folders = [FOLDER, *map(Path, filter(None, [os.environ.get("EAGLE_GOLDEN_TREES")]))]
    return [file for folder in folders for file in sorted(folder.glob("*.safetensors"))]


def metadata(file: Path) -> dict[str, str]:
    with safe_open(file, "pt") as tensors:
        return tensors.metadata()


TREES = [file for file in golden_files() if "kind" in metadata(file)]
POSTERIORS = [
    pytest.param(file, case, id=f"{file.stem}-{case}")
    for file in golden_files()
    if "cases" in metadata(file)
    for case in range(int(metadata(file)["cases"]))
]


def stub_target(golden: dict[str, Tensor]) -> SimpleNamespace:
    """What a head needs of its target."""
    embedding, output = golden["target.embed_tokens.weight"], golden["target.lm_head.weight"]
    lm_head = nn.Linear(output.shape[1], output.shape[0], bias=False)
    lm_head.weight = nn.Parameter(output)
    return SimpleNamespace(
        hidden_size=output.shape[1],
        vocabulary=output.shape[0],
        layers=8,
        embedding=nn.Embedding.from_pretrained(embedding),
        lm_head=lm_head,
    )


def make_drafter(golden: dict[str, Tensor], about: dict[str, str], folder: Path) -> Eagle2:
    """Through the public loader, from a checkpoint as the case's head would be published."""
    tensors = {
        name.removeprefix("head."): tensor for name, tensor in golden.items() if name.startswith("head.")
    }
    write_head(folder, json.loads(about["config_json"]), tensors)
    head = load_eagle_head(folder, stub_target(golden), "golden target")
    return Eagle2(head, int(about["nodes"]), int(about["depth_ours"]), int(about["beam"]))


def check_tree(tree: DraftTree, golden: dict[str, Tensor], suffix: str) -> None:
    """Structure exactly, scores within 1e-4."""
    assert tree.tokens.tolist() == golden[f"draft_tokens{suffix}"].tolist()
    assert tree.parents.tolist() == golden[f"parents{suffix}"].tolist()
    assert tree.depths == golden[f"position_ids{suffix}"].tolist()
    assert torch.equal(tree.mask, golden[f"tree_mask{suffix}"])
    assert tree.values is not None
    torch.testing.assert_close(tree.values, golden[f"scores{suffix}"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("file", TREES, ids=lambda file: file.stem)
@torch.inference_mode()
def test_trees_of_the_reference(file: Path, tmp_path: Path) -> None:
    """Any deviation of head, growth or rerank: feature order, rope, biases, positions, ties, catch-up."""
    golden, about = load_file(file), metadata(file)
    drafter = make_drafter(golden, about, tmp_path)
    tokens, features = golden["input_ids"].tolist(), golden["features"]
    nothing = torch.empty(1, drafter.head.vocabulary)
    drafter.observe(tokens, features, nothing, [0])
    check_tree(drafter.propose(tokens, SAMPLER), golden, "")
    if about["steps"] == "2":
        path = [0, *golden["accepted_nodes"].tolist()]
        tokens = tokens + golden["accepted_ids"].tolist()
        drafter.observe(tokens, torch.cat((features, golden["features_2"])), nothing, path)
        check_tree(drafter.propose(tokens, SAMPLER), golden, "_2")


@pytest.mark.parametrize("file", TREES, ids=lambda file: file.stem)
@torch.inference_mode()
def test_trees_do_not_depend_on_how_the_prompt_arrived(file: Path, tmp_path: Path) -> None:
    """A catch-up in pieces that attends, rotates or overwrites differently from one at once."""
    golden, about = load_file(file), metadata(file)
    drafter = make_drafter(golden, about, tmp_path)
    tokens, features = golden["input_ids"].tolist(), golden["features"]
    nothing = torch.empty(1, drafter.head.vocabulary)
    for end in range(2, len(tokens) + 1):
        drafter.observe(tokens[:end], features[: end - 1], nothing, [0])
        drafter.propose(tokens[:end], SAMPLER)  # its drafted rows must be gone afterwards
    check_tree(drafter.propose(tokens, SAMPLER), golden, "")


@pytest.mark.parametrize(("file", "case"), POSTERIORS)
def test_walks_of_the_reference(file: Path, case: int) -> None:
    """Another path or bonus than greedy verification gives: wrong branch, wrong depth, a stray match."""
    golden = {
        name.split(".")[1]: tensor
        for name, tensor in load_file(file).items()
        if name.startswith(f"case_{case}.")
    }
    tree = make_tree(golden["tokens"].tolist(), golden["parents"].tolist())
    argmax = golden["argmax"]
    logits = torch.randn(len(tree), int(argmax.max()) + 50, generator=torch.Generator().manual_seed(case))
    logits[torch.arange(len(tree)), argmax] = 10.0
    path, bonus = accept(tree, logits, [*range(5), tree.host.tokens[0]], SAMPLER)
    assert path == [0, *golden["accepted"].tolist()]
    assert [tree.host.tokens[node] for node in path[1:]] == golden["accepted_tokens"].tolist()
    assert bonus == golden["bonus"].item()


def test_the_data_is_there() -> None:
    """A reader that finds no files passes without having compared anything."""
    kinds = [metadata(file)["kind"] for file in TREES if file.parent == FOLDER]
    assert (kinds.count("eagle2"), kinds.count("eagle3")) == (7, 4)
    assert len(POSTERIORS) >= 22
