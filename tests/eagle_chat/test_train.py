"""`eagle-chat train`: the head and the files it writes, a dry run, and options it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_USAGE
from engine.training import Measured, Trainer, Validated
from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.tiny_model import byte_level, make_model, write_chat_model, write_model
from tests.eagle_chat.training_runs import assert_no_repeats, says, write_messages

pytestmark = pytest.mark.usefixtures("one_thread")

WRITTEN = ("config.json", "model.safetensors", "README.md", "training.jsonl", "training.svg", "plan.json")


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory) -> Path:
    """A train model with as many layers as an EAGLE-3 head asks for."""
    return write_chat_model(tmp_path_factory.mktemp("deep") / "model", num_hidden_layers=8)


def test_a_run(train, command, tmp_path, chat_model):
    """Catches a file that is not written or not read back, and a head that is worse than none."""
    ran, out = train(), tmp_path / "run"
    assert ran.code == EXIT_DONE, ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err
    for name in WRITTEN:
        assert (out / name).stat().st_size > 0, name
    assert not list(out.rglob("*.partial"))
    _, summary = says(chat_model, out)
    assert summary["method"] == "eagle2"
    assert summary["tau"] > 1.15
    ran = command(
        "run", "--model", chat_model, "--head", out, "--dtype", "fp32", "--max-new-tokens", 40, "Why?"
    )
    assert ran.code == EXIT_DONE, ran.err
    records = assert_no_repeats(out)
    looks = [record for record in records if record["event"] == "validation"]
    assert records[0]["event"] == "conversations"
    assert records[0]["tokens"] >= 1500
    assert [len(looks[-1][field]) for field in ("loss", "agreement")] == [5, 5]
    assert looks[-1]["loss"][0] < looks[0]["loss"][0] + 0.01
    card = (out / "README.md").read_text()
    best = [look for look in looks if look["best"]][-1]
    for said in (
        *(f"{share:.3f}" for share in best["agreement"]),
        str(chat_model),
        "--head",
        "--tokens 1500",
    ):
        assert said in card


def test_the_best_weights_are_kept(train, tmp_path, monkeypatch):
    """Catches the last weights written out where earlier ones did better."""
    validate, losses = Trainer._validate, iter((1.0, 0.5, 0.7, *[0.9] * 20))

    def made_up(self: Trainer) -> Validated:
        measured = Measured((next(losses),) * 5, (0.5,) * 5)
        with monkeypatch.context() as patched:
            patched.setattr(self, "_objective", lambda batch, steps: (None, measured))
            return validate(self)

    monkeypatch.setattr(Trainer, "_validate", made_up)
    seen: list[dict] = []
    run = Trainer.run

    def watched(self: Trainer):
        for event in run(self):
            seen.append({name: tensor.clone() for name, tensor in self.network.state_dict().items()})
            if isinstance(event, Validated):
                marks.append((event.best, seen[-1]))
            yield event

    marks: list[tuple[bool, dict]] = []
    monkeypatch.setattr(Trainer, "run", watched)
    assert train().code == EXIT_DONE
    assert [best for best, _ in marks[:3]] == [True, True, False]
    head = load_file(tmp_path / "run" / "model.safetensors")
    assert torch.equal(head["fc.weight"], marks[1][1]["fc.weight"].bfloat16())
    assert not torch.equal(head["fc.weight"], marks[-1][1]["fc.weight"].bfloat16())


def test_dry_run(command, chat_model, tmp_path):
    """Catches a dry run that leaves something behind, or says too little, or sizes all runs alike."""
    options = ("train", "--model", chat_model, "--out", tmp_path / "run", "--dry-run")
    few, many = (command(*options, "--minutes", minutes) for minutes in (1, 100))
    assert (few.code, few.err) == (EXIT_DONE, "")
    for word in (
        "eagle2 for",
        "disk",
        "memory",
        " MB",
        "min for conversations",
        "min for training",
        "4 passes",
    ):
        assert word in few.out
    sizes = [int(ran.out.split("conversations")[1].split()[0].replace(",", "")) for ran in (few, many)]
    assert 20 < sizes[1] / sizes[0] < 500
    assert list(tmp_path.iterdir()) == []


def test_options_that_cannot_be(train, tmp_path):
    """Catches a mistake that is found out late, with a traceback, or not at all."""
    (tmp_path / "file").write_text("")
    assert_refused(train("--resume"), "there is no run to resume", "leave --resume out")
    assert_refused(train("--minutes", 1, "--tokens", 9), "--minutes and --tokens both size the run")
    assert_refused(train("--minutes", 1, "--resume"), "--minutes sizes a new run")
    assert_refused(train("--dry-run", "--resume"), "leave --resume out")
    assert_refused(train(out=tmp_path / "file"), "is a file", "--out")
    assert_refused(train("--data", tmp_path / "none.jsonl"), "there is no file", "--data")
    assert_refused(train(out=tmp_path / "file" / "run"), "is a file", "--out")
    assert_refused(train("--method", "eagle3"), "2 are too few", "--method eagle2")
    for option in ("--minutes", "--passes", "--regression"):
        ran = train(option, "inf")
        assert ran.code == EXIT_USAGE
        assert "inf is not a finite number" in ran.sentence


def test_a_folder_with_something_else(train, tmp_path):
    """Catches a README or a head that is overwritten."""
    for name in ("README.md", "model.safetensors", "config.json"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("mine")
        assert_refused(train(out=folder), f"has a {name}", "choose another folder")
        assert (folder / name).read_text() == "mine"


def test_a_disk_without_room(train, tmp_path):
    """Catches a run that fills the disk after a day."""
    ran = train("--tokens", 10**12)
    assert ran.code == EXIT_FAILURE
    assert "MB left, too few for this run" in ran.err.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_small_contexts(train, tmp_path):
    """Catches conversations longer than the target's context."""
    tokenizer = byte_level()
    model = write_model(tmp_path / "small", tokenizer, make_model(tokenizer, max_position_embeddings=128))
    assert train(model=model).code == EXIT_DONE
    assert max(load_file(tmp_path / "run" / "corpus" / "00000.safetensors")["lengths"]) == 128


def test_eagle3(train, tmp_path, deep_model):
    """Catches an EAGLE-3 head that is not recognised, or not the target's, with own conversations too."""
    for name, more in (("own", ["--data", write_messages(tmp_path / "own.jsonl", 20)]), ("its", [])):
        ran = train("--method", "eagle3", "--vocab", 100, *more, model=deep_model, out=tmp_path / name)
        assert ran.code == EXIT_DONE, ran.err
        _, summary = says(deep_model, tmp_path / name)
        assert summary["method"] == "eagle3"
        assert "EAGLE-3" in (tmp_path / name / "README.md").read_text()
        head = load_file(tmp_path / name / "model.safetensors")
        assert {"d2t", "t2d", "midlayer.self_attn.q_proj.weight"} <= head.keys()
        assert len(head["d2t"]) == 100


def test_trimmed_vocabulary(train, tmp_path, chat_model):
    """Catches a draft vocabulary that is not the most frequent tokens, or is not written."""
    assert train("--vocab", 64).code == EXIT_DONE
    out = tmp_path / "run"
    ids = load_file(out / "model.safetensors")["draft_vocab"]
    tokens = torch.cat([load_file(shard)["tokens"] for shard in (out / "corpus").glob("*.safetensors")])
    counts = torch.bincount(tokens)
    rest = [count for token, count in enumerate(counts.tolist()) if token not in ids.tolist()]
    assert len(ids) == 64
    assert counts[ids.long()].min() >= max(rest)
    says(chat_model, out)
