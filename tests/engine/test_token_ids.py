"""Files of token ids that a head may propose: those are proposed and nothing else, or one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine import CheckpointError, Eagle2, Engine, StockTarget, load_eagle_head, read_token_ids, trimmed
from tests.engine.stubs import plain_reply, rounds
from tests.engine.test_equality import PROMPTS, make_settings
from tests.engine.tiny import make_model, write_layout

RANKING = [7, 96, 0, 12, 5]


def saved(file: Path, content: object) -> Path:
    torch.save(content, file)
    return file


@pytest.mark.parametrize("content", [RANKING, torch.tensor(RANKING), torch.tensor(RANKING).int()])
def test_rankings(tmp_path: Path, content: object) -> None:
    """The first of the sorted ids taken for the most frequent, or ids that are not sorted."""
    file = saved(tmp_path / "freq_5.pt", content)
    assert read_token_ids(file, 97).tolist() == [0, 5, 7, 12, 96]
    assert read_token_ids(file, 97, 3).tolist() == [0, 7, 96]


def test_our_own_files(tmp_path: Path) -> None:
    """A head's file that is read for another tensor, or whose first ids are taken for frequent ones."""
    file = tmp_path / "model.safetensors"
    save_file({"draft_vocab": torch.tensor([1, 4, 9]).int(), "fc.weight": torch.ones(2, 2)}, file)
    assert read_token_ids(file, 97).tolist() == [1, 4, 9]
    with pytest.raises(CheckpointError, match="sorted by id and not by frequency"):
        read_token_ids(file, 97, 2)


BAD: dict[str, tuple[object, int | None, str]] = {
    "scores": (torch.ones(97), None, "holds no list of token ids"),
    "a mask": (torch.ones(97).bool(), None, "holds no list of token ids"),
    "a table": (torch.ones(3, 2).long(), None, "holds no list of token ids"),
    "nothing": ([], None, "holds no list of token ids"),
    "words": (["the", "a"], None, "holds no list of token ids"),
    "lists": ([[1], [2]], None, "holds no list of token ids"),
    "truths": ([True, False], None, "holds no list of token ids"),
    "a dictionary": ({"ids": RANKING}, None, "holds no list of token ids"),
    "twice": ([3, 5, 3], None, "token id 3 twice"),
    "another model's": ([3, 97], None, "token id 97, and the model's are below 97"),
    "negative": ([3, -1], None, "token id -1"),
    "too few": (RANKING, 6, "has 5 token ids, fewer than the 6 asked for"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(tmp_path: Path, case: str) -> None:
    """Proposals that are no tokens, or a traceback from inside of torch."""
    content, count, words = BAD[case]
    file = saved(tmp_path / "freq_32768.pt", content)
    with pytest.raises(CheckpointError, match=words) as error:
        read_token_ids(file, 97, count)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["freq.pt", "freq.safetensors"])
def test_damaged_and_missing(tmp_path: Path, name: str) -> None:
    """Code in a pickle that is run, or a file that is not there taken for an empty one."""
    with pytest.raises(CheckpointError, match="there is no file"):
        read_token_ids(tmp_path / name, 97)
    (tmp_path / name).write_bytes(b"no such thing")
    with pytest.raises(CheckpointError, match="damaged"):
        read_token_ids(tmp_path / name, 97)


def test_drafting_with_fewer_tokens(tmp_path: Path) -> None:
    """A row of the smaller LM head taken for another token's; a reply that changes with what is proposed."""
    model = make_model("llama")
    target = StockTarget(model)
    whole = load_eagle_head(write_layout(tmp_path, "vicuna", model), target, "tiny-llama")
    ranking = torch.randperm(97, generator=torch.Generator().manual_seed(3)).tolist()
    ids = read_token_ids(saved(tmp_path / "freq_97.pt", ranking), 97, 48)
    head = trimmed(whole, ids)
    hidden = torch.randn(3, 32)
    torch.testing.assert_close(head.logits(hidden), whole.logits(hidden)[:, sorted(ranking[:48])])
    engine = Engine(target, {"it": Eagle2(head, nodes=20, depth=4, beam=6)})
    for sampling in ("greedy", "T0.7"):
        settings = make_settings(sampling, 1.3)
        engine.reset()
        done = list(rounds(engine, PROMPTS[1], settings, "it"))
        assert [token for r in done for token in r.new] == plain_reply(target, PROMPTS[1], settings)
        assert any(len(r.tree) > 1 for r in done)
        said = {*PROMPTS[1], *(token for r in done for token in r.new)}
        assert {token for r in done for token in r.tree.host.tokens[1:]} <= {*ids.tolist(), *said}
