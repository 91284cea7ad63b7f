"""`eagle-chat train`: a run stopped or killed anywhere, gone on with, and made longer."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file

from eagle_chat.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_USAGE
from eagle_chat.training import Began, Event, Featured, Synthesised
from eagle_chat.training_log import TrainingLog, read_log
from engine.training import Trained
from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.tiny_model import byte_level, write_chat_model
from tests.eagle_chat.training_runs import assert_no_repeats, interrupt_at, write_messages

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_run_that_is_there(train, finished, tmp_path, chat_model):
    """Catches a run that is overwritten, or gone on with for other weights or from a damaged plan."""
    out = shutil.copytree(finished, tmp_path / "run")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert_refused(train(), "holds a run already", "--resume")
    assert_refused(train("--resume", "--tokens", 9), "cannot make it fewer")
    plan = json.loads((out / "plan.json").read_text())
    other = write_chat_model(tmp_path / "other", seed=2)
    assert_refused(train("--resume", model=other), "has other weights than the run", "start another run")
    whole = json.dumps(plan)
    wrong = [json.dumps(plan | change) for change in ({"tokens": "many"}, {"model": None}, {"what": 1})]
    for damaged in ("", whole[:40], "[]", "7", "[" * 100_000, *wrong):
        (out / "plan.json").write_text(damaged)
        assert_refused(train("--resume"), "plan.json is damaged")
    (out / "plan.json").write_bytes(before[out / "plan.json"])
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert train("--dry-run").code == EXIT_DONE
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("option", "other", "began"),
    [
        ("--method", "medusa", "with --method eagle2"),
        ("--vocab", 64, "with --vocab 8192"),
        ("--layers", 2, "with --layers 1"),
        ("--steps", 2, "with --steps 3"),
        ("--regression", 0, "with --regression 5.0"),
        ("--seed", 5, "with --seed 0"),
        ("--dtype", "bf16", "with --dtype fp32"),
        ("--data", "own.jsonl", "without --data"),
    ],
)
def test_a_run_cannot_become_another(train, finished, tmp_path, option, other, began):
    """Catches an option of a resumed run that is passed over: a head that is not the one asked for."""
    shutil.copytree(finished, tmp_path / "run")
    if option == "--data":
        other = write_messages(tmp_path / other, 3)
    assert_refused(train("--resume", option, other), f"began {began}: leave {option} out", "--out")


def test_resumed_with_the_same_options(train, finished, tmp_path, chat_model):
    """Catches the same command, with --resume added, that is refused; and a target that may not be moved."""
    out = shutil.copytree(finished, tmp_path / "run")
    moved = shutil.copytree(chat_model, tmp_path / "moved")
    options = ("--method", "eagle2", "--vocab", 8192, "--steps", 3, "--regression", 5, "--seed", 0)
    ran = train("--resume", *options, model=moved)
    assert ran.code == EXIT_DONE, ran.err
    assert json.loads((out / "plan.json").read_text())["model"] == str(moved)


def test_two_commands_in_one_folder(train, finished, tmp_path):
    """Catches two runs that overwrite each other's states, and a lock that outlives its command."""
    out = shutil.copytree(finished, tmp_path / "run")
    plan = (out / "plan.json").read_bytes()
    with FileLock(out / "run.lock"):
        ran = train("--resume", "--passes", 9)
    assert ran.code == EXIT_USAGE
    assert "another command is at work in" in ran.err
    assert (out / "plan.json").read_bytes() == plan
    assert train("--resume").code == EXIT_DONE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_closed_terminal_and_a_kill_lose_nothing(train, tmp_path, monkeypatch, number):
    with monkeypatch.context() as patched:
        interrupt_at(patched, Trained, 2, number)
        assert train().code == EXIT_INTERRUPTED
    assert (tmp_path / "run" / "state.pt").is_file()
    assert train("--resume").code == EXIT_DONE


@pytest.mark.parametrize("count", [1, 2, 3])
def test_stopped_in_training(train, finished, tmp_path, monkeypatch, count):
    """Catches an update that is lost or done twice, or a look at held-out conversations that is skipped."""
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        interrupt_at(patched, Trained, count)
        ran = train()
    assert ran.code == EXIT_INTERRUPTED
    assert f"  eagle-chat train --out {out} --resume\n" in ran.err
    assert not (out / "model.safetensors").exists()
    assert (out / "training.svg").is_file()
    ran = train("--resume")
    assert ran.code == EXIT_DONE, ran.err
    assert "Going on with the eagle2 head" in ran.err
    mine, whole = (load_file(folder / "model.safetensors") for folder in (out, finished))
    assert mine.keys() == whole.keys()
    for name, tensor in whole.items():
        assert torch.equal(mine[name], tensor), name
    looks, all_looks = (
        [record for record in assert_no_repeats(folder) if record["event"] == "validation"]
        for folder in (out, finished)
    )
    assert [look["loss"] for look in looks] == [look["loss"] for look in all_looks]


def test_stopped_at_the_last_step(train, finished, tmp_path, monkeypatch):
    """Catches a run that ends without the best weights, since its last look was never taken."""
    steps = json.loads((finished / "training.jsonl").read_text().splitlines()[-2])
    assert steps["pairs"] == steps["of"]
    with monkeypatch.context() as patched:
        record = TrainingLog.record

        def watched(self: TrainingLog, event: Event) -> None:
            if isinstance(event, Trained) and event.pairs == event.of:
                os.kill(os.getpid(), signal.SIGINT)
            record(self, event)

        patched.setattr(TrainingLog, "record", watched)
        assert train().code == EXIT_INTERRUPTED
    assert train("--resume").code == EXIT_DONE
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (finished / name).read_bytes()


def test_stopped_in_conversations(train, tmp_path, monkeypatch):
    """Catches what was written thrown away, or a repetition of it."""
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        interrupt_at(patched, Synthesised, 150)
        ran = train("--tokens", 4000)
    assert ran.code == EXIT_INTERRUPTED
    kept = load_file(out / "corpus" / "00000.safetensors")
    assert 64 < kept["lengths"][0] < 384
    assert train("--resume").code == EXIT_DONE
    after = load_file(out / "corpus" / "00000.safetensors")
    assert torch.equal(after["tokens"], kept["tokens"])
    assert (out / "corpus" / "00001.safetensors").is_file()
    assert_no_repeats(out)


def test_stopped_at_once(train, tmp_path, monkeypatch):
    """Catches a resumed run that needs what was never written."""
    with monkeypatch.context() as patched:
        interrupt_at(patched, Synthesised, 1)
        assert train().code == EXIT_INTERRUPTED
    assert train("--resume").code == EXIT_DONE


def test_stopped_in_own_conversations_and_features(train, tmp_path, monkeypatch):
    """Catches conversations left out or read twice."""
    monkeypatch.setattr("eagle_chat.training.SHARD_TOKENS", 500)
    data = write_messages(tmp_path / "own.jsonl", 30)
    for kind, count in ((Synthesised, 2), (Featured, 2), (Began, 1)):
        with monkeypatch.context() as patched:
            interrupt_at(patched, kind, count)
            ran = train(*(["--resume"] if kind is not Synthesised else ["--data", data, "--tokens", 9999]))
        assert ran.code == EXIT_INTERRUPTED, ran.err
    data.unlink()  # no longer needed
    assert train("--resume").code == EXIT_DONE
    shards = sorted((tmp_path / "run" / "corpus").glob("*.safetensors"))
    assert len(shards) > 2
    texts = [byte_level().decode(load_file(shard)["tokens"]) for shard in shards]
    assert "".join(texts).count("<|im_start|>user\n") == 30
    assert_no_repeats(tmp_path / "run")


def test_killed(train, finished, tmp_path):
    """Catches a log that says things twice where the state is older than the log, or has half a line."""
    out = tmp_path / "run"
    assert train("--tokens", 1500).code == EXIT_DONE
    state = torch.load(out / "state.pt", weights_only=True)
    whole = read_log(out / "training.jsonl")
    (out / "state.pt").unlink()
    lost = {"event": "conversations", "tokens": 99_999, "of": 100_000, "seconds": 70.0}
    with (out / "training.jsonl").open("a") as log:
        log.write(json.dumps(lost) + '\n{"event": "st')
    (out / "corpus" / "00000.safetensors").unlink()
    assert train("--resume").code == EXIT_DONE
    records = assert_no_repeats(out)
    assert [record["event"] for record in records] == [record["event"] for record in whole]
    assert torch.load(out / "state.pt", weights_only=True)["progress"]["pairs"] == state["progress"]["pairs"]


def test_resumed_when_done(train, finished, tmp_path):
    """Catches a second look at the end, or a head that is worse for it."""
    out = shutil.copytree(finished, tmp_path / "run")
    assert train("--resume").code == EXIT_DONE
    assert (out / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()
    assert len(assert_no_repeats(out)) == len(read_log(finished / "training.jsonl")) + 1


def test_made_longer(train, finished, tmp_path):
    """Catches a longer run that starts over."""
    out = shutil.copytree(finished, tmp_path / "run")
    ran = train("--resume", "--tokens", 3000)
    assert ran.code == EXIT_DONE, ran.err
    records = assert_no_repeats(out)
    starts = [record["pairs"] for record in records if record["event"] == "start"]
    assert starts[1] >= starts[0] + 6000 - 2000
    assert json.loads((out / "plan.json").read_text())["tokens"] == 3000
    looks = [record for record in records if record["event"] == "validation"]
    assert any(look["best"] for look in looks if look["pairs"] > starts[1])  # else the old head is kept
