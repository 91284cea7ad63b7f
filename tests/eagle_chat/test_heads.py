"""Medusa and Hydra heads from `train` to a reply: trained, recognised, cut to size, lossless."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file

from eagle_chat import more_methods
from eagle_chat.errors import EXIT_DONE, UsageError
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Method, Options
from eagle_chat.weights import WeightsLocation
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


@pytest.fixture
def shipped(monkeypatch, head) -> None:
    """As if the Medusa heads came with the model."""
    known = SimpleNamespace(heads={"medusa": "two-heads"})
    monkeypatch.setattr(more_methods, "entry_for", lambda _: known)
    monkeypatch.setattr(more_methods, "find_head", lambda *_: WeightsLocation(head, "two-heads", "0"))


@pytest.mark.usefixtures("shipped")
def test_sizes_count_for_a_head_that_came_later(chat_model, chat_head):
    """Catches a size on screen that the tree of another head does not have, before or after it is loaded."""
    options = Options(
        str(chat_model), str(chat_head), method=Method.EAGLE2, dtype=Dtype.FP32, nodes=3, beam=2
    )
    session = load_session(options, lambda event: None)

    def nodes(**given: object) -> int:
        session.change(replace(session.choices, **given))
        return session.info.nodes

    assert nodes(method="medusa") == 8  # no tree of a given beam
    assert nodes(beam=None) == 3
    assert nodes(nodes=None) == 8
    assert nodes(nodes=4, depth=2) == nodes(method="eagle2") == 4
    assert nodes(nodes=20, beam=8) == 20
    with pytest.raises(UsageError, match="--beam has no use with --method medusa"):
        nodes(method="medusa", beam=7)
    assert session.info.nodes == 20


@pytest.mark.usefixtures("shipped")
def test_a_race_of_two_heads(command, chat_model, chat_head):
    """Catches a second head that is refused, not loaded, or not on the card."""
    options = ("--model", chat_model, "--head", chat_head, "--dtype", "fp32", "--max-new-tokens", 12)
    ran = command("race", "Why?", "--methods", "eagle2,medusa", *options)
    assert ran.code == EXIT_DONE, ran.err
    assert [line.split()[0] for line in ran.out.splitlines()[2:4]] == ["eagle2", "medusa"]
    assert f"{chat_head.name} and two-heads" in ran.out
    assert "same text ✓" in ran.out
    assert_refused(command("race", "Why?", "--methods", "eagle2,hydra", *options), "weights of their own")


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
