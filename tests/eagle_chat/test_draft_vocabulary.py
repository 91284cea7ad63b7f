"""`--draft-vocab` and FR-Spec's files beside a head: fewer proposals, the same text, or one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from eagle_chat import hub
from eagle_chat.choices import Choices
from eagle_chat.draft_vocabulary import load_network
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Options
from eagle_chat.replacement import replacement
from engine.drafters.eagle_head import EagleHead
from tests.eagle_chat.conftest import assert_refused

pytestmark = pytest.mark.usefixtures("one_thread")

TOKENS = 300


@pytest.fixture
def ranking(tmp_path: Path) -> Path:
    """Of all tokens that the tiny model knows, in no order."""
    file = tmp_path / "freq_300.pt"
    torch.save(torch.randperm(TOKENS, generator=torch.Generator().manual_seed(1)).tolist(), file)
    return file


def session(model: Path, head: Path, **options: object):
    return load_session(Options(str(model), str(head), dtype=Dtype.FP32, **options), lambda event: None)


def vocabulary(loaded) -> int:
    head = loaded.engine.drafters["eagle2"].head
    assert isinstance(head, EagleHead)
    return head.vocabulary


def test_the_first_of_a_file(command, chat_model, chat_head, ranking):
    """Catches an option without effect, or a reply that changes with it."""
    run = ("run", "Why?", "--model", chat_model, "--head", chat_head, "--dtype", "fp32", "--json")
    whole = json.loads(command(*run, "--max-new-tokens", 30).out)
    ran = command(*run, "--max-new-tokens", 30, "--draft-vocab", f"{ranking}:100")
    assert json.loads(ran.out)["text"] == whole["text"], ran.err
    loaded = session(chat_model, chat_head, draft_vocab=f"{ranking}:100")
    assert vocabulary(loaded) == 100
    assert loaded.info.notes == ()
    assert vocabulary(session(chat_model, chat_head, draft_vocab=str(ranking))) == TOKENS


def test_another_model_has_none(chat_model, chat_head, ranking):
    """Catches /model that takes the tokens of the model before along, or refuses one without a head."""
    options = Options(str(chat_model), str(chat_head), draft_vocab=f"{ranking}:100", dtype=Dtype.FP32)
    other = replacement(options, str(chat_model), Choices("eagle2")).load(lambda event: None)
    assert other.info.method == "pld"


def test_a_file_beside_the_head(tmp_path, chat_model, chat_head, ranking):
    """Catches a file that is not found, the smaller one of two, or one that is used and never mentioned."""
    head = shutil.copytree(chat_head, tmp_path / "head")
    shutil.copy(ranking, head)
    torch.save([1, 2, 3], head / "freq_3.pt")
    torch.save([1, 2, 3], head / "freq_notes.pt")
    loaded = session(chat_model, head)
    assert vocabulary(loaded) == TOKENS
    (note,) = loaded.info.notes
    assert "300 tokens of freq_300.pt" in note
    assert "--draft-vocab all" in note
    loaded = session(chat_model, head, draft_vocab="all")
    assert vocabulary(loaded) > TOKENS
    assert loaded.info.notes == ()


def test_a_head_with_a_vocabulary_of_its_own(command, tmp_path, chat_model, chat_head, ranking):
    """Catches a head's own choice taken away by a file beside it, and an option that is ignored."""
    head = shutil.copytree(chat_head, tmp_path / "own")
    own = {"draft_vocab": torch.arange(50).int()}
    save_file(load_file(head / "model.safetensors") | own, head / "model.safetensors")
    shutil.copy(ranking, head)
    loaded = session(chat_model, head)
    assert vocabulary(loaded) == 50
    assert loaded.info.notes == ()
    run = ("run", "Why?", "--model", chat_model, "--head", head, "--draft-vocab", ranking)
    assert_refused(
        command(*run), "--draft-vocab has no use with", str(head), "a draft vocabulary of their own"
    )
    ours = session(chat_model, chat_head, draft_vocab=str(head / "model.safetensors"))
    assert vocabulary(ours) == 50


def test_what_cannot_be_used(command, tmp_path, chat_model, chat_head, ranking):
    """Catches a traceback, or a session that starts without what was asked for."""
    run = ("run", "Why?", "--model", chat_model, "--head", chat_head, "--draft-vocab")
    assert_refused(command(*run, tmp_path / "none.pt"), "there is no file", "none.pt")
    assert_refused(command(*run, f"{ranking}:301"), "has 300 token ids, fewer than the 301")
    assert_refused(command(*run, f"{ranking}:0"), "at least one token")
    assert_refused(command(*run, f"{ranking}:3"), "larger than the draft vocabulary of 3 tokens")
    torch.save([5, 10**6], tmp_path / "far.pt")
    assert_refused(command(*run, tmp_path / "far.pt"), "token id 1000000", "choose the file")
    for method in ("pld", "none"):
        alone = ("run", "Why?", "--model", chat_model, "--method", method, "--draft-vocab", ranking)
        assert_refused(command(*alone), f"--draft-vocab has no use with --method {method}")


def test_a_name_with_a_colon(tmp_path, chat_model, chat_head, ranking):
    """Catches a file whose own name ends as a number of tokens does."""
    file = shutil.copy(ranking, tmp_path / "freq:9")
    assert vocabulary(session(chat_model, chat_head, draft_vocab=str(file))) == TOKENS


def test_it_is_for_the_sessions_own_head(chat_model, chat_head, ranking):
    """Catches a head to compare with that is cut as well, so that nothing differs."""
    from eagle_chat.loading import load_head
    from eagle_chat.weights import WeightsLocation

    options = Options(str(chat_model), str(chat_head), str(ranking), dtype=Dtype.FP32)
    loaded, other = session(chat_model, chat_head), WeightsLocation(chat_head, "other", "")
    _, drafter = load_head(options, other, loaded.engine.target)
    assert drafter.head.vocabulary > TOKENS
    network, _ = load_network(options, other, loaded.engine.target)
    assert network.draft_vocab is not None


def test_the_hub_brings_them_along():
    """Catches a file that a head's repository has and that is never downloaded."""
    assert "freq_*.pt" in hub.FILES
