"""`eagle-chat train --corpus` and `--method draft-model`: the same conversations for another head."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from eagle_chat.errors import EXIT_DONE
from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.tiny_model import write_chat_model
from tests.eagle_chat.training_runs import says

pytestmark = pytest.mark.usefixtures("one_thread")


def files(folder: Path) -> dict[Path, int]:
    """Every file with its time."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_draft_model_of_borrowed_conversations(train, command, finished, chat_model, tmp_path):
    """Catches a run that writes to the lender, draws its own conversations, or leaves what cannot draft."""
    before = files(finished)
    ran = train("--method", "draft-model", "--layers", 2, "--corpus", finished)
    assert ran.code == EXIT_DONE, ran.err
    assert files(finished) == before
    out = tmp_path / "run"
    assert not list((out / "corpus").glob("*.safetensors"))
    assert "2 layers" in (out / "README.md").read_text()
    assert "model.layers.1.mlp.up_proj.weight" in load_file(out / "model.safetensors")
    _, summary = says(chat_model, out)
    assert summary["method"] == "draft-model"
    ran = command("run", "--model", chat_model, "--method", "draft-model-sampled", "--head", out, "Why?")
    assert ran.code == EXIT_DONE, ran.err
    longer = train("--resume", "--passes", 5)
    assert longer.code == EXIT_DONE, longer.err
    again = train("--method", "medusa", "--corpus", out, out=tmp_path / "again")
    assert again.code == EXIT_DONE, again.err


def test_conversations_that_cannot_be_borrowed(train, finished, tmp_path):
    """Catches another target's conversations that are trained on, and options that mean nothing."""
    other = write_chat_model(tmp_path / "other", seed=2)
    assert_refused(train("--corpus", finished, model=other), "other weights than", "leave --corpus out")
    assert_refused(train("--corpus", tmp_path), "no training run in", "--corpus")
    assert_refused(train("--corpus", finished, "--tokens", 10**6), "--tokens cannot be more")
    assert_refused(train("--corpus", finished, "--data", "x"), "leave out --data")
    assert_refused(train("--layers", 2), "only a draft model has --layers")
    assert_refused(train("--method", "draft-model", "--steps", 2), "leave --steps out")


def test_a_dry_run_of_borrowed_conversations(train, finished, tmp_path):
    """Catches time for conversations that are there, and a dry run that leaves something."""
    ran = train("--corpus", finished, "--dry-run")
    assert ran.code == EXIT_DONE, ran.err
    assert "for training" in ran.out
    assert "conversations, " not in ran.out
    assert not (tmp_path / "run").exists()
