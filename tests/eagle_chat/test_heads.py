"""Medusa and Hydra heads from `train` to a reply: trained, recognised, cut to size, lossless."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from eagle_chat.errors import EXIT_DONE, UsageError
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Options
from engine import Hydra, Medusa
from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.evaluation_runs import report_of, write_questions
from tests.eagle_chat.training_runs import assert_no_repeats, says

pytestmark = pytest.mark.usefixtures("one_thread")

KINDS = {"medusa": Medusa, "hydra": Hydra}


@pytest.mark.parametrize("method", KINDS)
def test_a_run(train, command, tmp_path, chat_model, method):
    """Catches a head that is not written, not recognised or not the target's, or worse than none."""
    ran, out = train("--method", method, "--vocab", 100), tmp_path / "run"
    assert ran.code == EXIT_DONE, ran.err
    _, summary = says(chat_model, out)
    assert summary["method"] == method
    assert summary["tau"] > 1
    tensors = load_file(out / "model.safetensors")
    assert len(tensors["draft_vocab"]) == 100
    looks = [record for record in assert_no_repeats(out) if record["event"] == "validation"]
    assert len(looks[-1]["loss"]) == 4
    card = (out / "README.md").read_text()
    assert method.capitalize() in card
    assert "4 heads" in card
    assert_refused(command("run", "--model", chat_model, "--head", out, "--method", "eagle2", "Hi"), method)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory, chat_model: Path) -> Path:
    """Two Medusa heads."""
    from eagle_chat.train import Job, train

    folder = tmp_path_factory.mktemp("two") / "run"
    options = Options(str(chat_model), dtype=Dtype.FP32)
    assert train(options, Job(folder, "medusa", tokens=600, steps=2)) == EXIT_DONE
    return folder


@pytest.mark.parametrize(
    ("given", "size"),
    [({}, (8, 2, 4)), ({"nodes": 3}, (3, 2, 2)), ({"depth": 1}, (8, 1, 8)), ({"nodes": 63}, (38, 2, 10))],
)
def test_the_tree_is_cut_to_what_there_is(chat_model, head, given, size):
    """Catches a tree deeper than its heads, and a size on screen that the tree does not have."""
    info = load_session(
        Options(str(chat_model), str(head), dtype=Dtype.FP32, **given), lambda event: None
    ).info
    assert (info.nodes, info.depth, info.beam) == size
    assert not info.sized


def test_sizes_that_no_tree_has(command, chat_model, head):
    """Catches an option without effect, or a tree smaller than was asked for."""
    run = ("run", "--model", chat_model, "--head", head, "Hi")
    assert_refused(command(*run, "--beam", 3), "--beam has no use with --method medusa", "a fixed tree")
    for option, value in (("--nodes", 64), ("--depth", 5)):
        assert_refused(command(*run, option, value), "the tree of medusa has 63 nodes and a depth of 4")


def test_a_head_of_another_method_is_compared_with(evaluate, tmp_path, head):
    """Catches a drafter that is asked for by the name of another method."""
    questions = write_questions(tmp_path / "sky.jsonl", ["Why is the sky blue?"])
    report = report_of(evaluate("--questions", questions, "--json", "--against", head))
    assert report["others"].keys() == {head.name}


def test_the_tree_is_cut_between_replies(chat_model, head):
    """Catches a session whose tree stays as it was loaded, or one that is sized by cost from then on."""
    session = load_session(Options(str(chat_model), str(head), dtype=Dtype.FP32), lambda event: None)
    for given, size in (({"nodes": 3}, (3, 2, 2)), ({"nodes": None}, (8, 2, 4))):
        session.change(replace(session.choices, **given))
        assert (session.info.nodes, session.info.depth, session.info.beam) == size
        *_, reply = session.ask("Why?", seed=1, stop=threading.Event())
        assert reply.summary["method"] == "medusa"
    with pytest.raises(UsageError, match="a fixed tree"):
        session.change(replace(session.choices, beam=3))
