"""`eagle-chat train`: what it writes, that it can be stopped anywhere, and what it says to mistakes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, UsageError
from eagle_chat.loading import load_for_training, load_session
from eagle_chat.messages_file import read_conversations
from eagle_chat.options import Dtype, Options
from eagle_chat.training import Began, Event, Featured, Synthesised, TrainingRun
from eagle_chat.training_log import TrainingLog, read_log
from eagle_chat.training_plan import Plan
from eagle_chat.training_plot import write_plot
from eagle_chat.training_view import TrainingView
from engine.training import Measured, Speeds, Trained, Trainer, Validated
from tests.eagle_chat.conftest import Ran
from tests.eagle_chat.tiny_model import byte_level, make_model, write_chat_model, write_model

pytestmark = pytest.mark.usefixtures("one_thread")

Tiny = Callable[..., Ran]

WRITTEN = ("config.json", "model.safetensors", "README.md", "training.jsonl", "training.svg", "plan.json")
SAID = ("Why is the sky blue? ", "Because the air scatters short waves. ")


@pytest.fixture
def tiny(command, chat_model, tmp_path, monkeypatch) -> Tiny:
    """`eagle-chat train` of a small head for the tiny model; the run's folder is `tmp_path / "run"`."""
    monkeypatch.setattr("engine.training.measure_speeds", lambda *how: Speeds(1000.0, 1000.0))

    def train(*args: object, model: Path = chat_model, out: Path = tmp_path / "run") -> Ran:
        sizes = [] if {"--tokens", "--minutes", "--resume"} & {*args} else ["--tokens", 1500]
        return command("train", "--model", model, "--out", out, "--dtype", "fp32", *sizes, *args)

    return train


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory) -> Path:
    """A tiny model with as many layers as an EAGLE-3 head asks for."""
    return write_chat_model(tmp_path_factory.mktemp("deep") / "model", num_hidden_layers=8)


def write_messages(path: Path, conversations: int, repeat: int = 1) -> Path:
    """A file of conversations of two turns, each with words of its own."""
    lines = []
    for i in range(conversations):
        texts = [f"{i}. {text * repeat}" for text in SAID]
        messages = [
            {"role": role, "content": text} for role, text in zip(("user", "assistant"), texts, strict=True)
        ]
        lines.append(json.dumps({"id": i, "messages": messages}))
    path.write_text("\n".join(lines) + "\n")
    return path


def interrupt_at(monkeypatch, kind: type[Event], count: int) -> None:
    """Ctrl+C arrives when the log takes in event `count` of a kind."""
    seen, record = [], TrainingLog.record

    def watched(self: TrainingLog, event: Event) -> None:
        seen.append(event)
        if sum(isinstance(event, kind) for event in seen) == count and isinstance(event, kind):
            os.kill(os.getpid(), signal.SIGINT)
        record(self, event)

    monkeypatch.setattr(TrainingLog, "record", watched)


def assert_refused(ran: Ran, *parts: str, code: int = EXIT_USAGE) -> None:
    """One sentence that says all `parts`."""
    assert ran.code == code, ran.err
    assert ran.out == ""
    assert ran.err.startswith("eagle-chat: ")
    assert ran.err.count("\n") == 1, ran.err
    for part in parts:
        assert part in ran.err


def assert_no_repeats(folder: Path) -> list[dict]:
    """The records of a run: none twice, each stage moving on."""
    records = read_log(folder / "training.jsonl")
    for kind, at in (
        ("conversations", "tokens"),
        ("start", "pairs"),
        ("step", "pairs"),
        ("validation", "pairs"),
    ):
        places = [record[at] for record in records if record["event"] == kind]
        assert places == sorted(set(places)), kind
    return records


def says(model: Path, head: Path, **options) -> tuple[str, dict]:
    """A reply with the head, and its summary; that plain decoding says the same."""
    session = load_session(
        Options(str(model), str(head), dtype=Dtype.FP32, max_new_tokens=40, **options), lambda event: None
    )
    *_, reply = session.ask("Why is the sky blue?", seed=3, stop=threading.Event())
    *_, plain = session.again(method="none", stop=threading.Event())
    assert reply.text == plain.text
    return reply.text, reply.summary


def test_a_run(tiny, command, tmp_path, chat_model):
    """Catches a file that is not written or not read back, and a head that is worse than none."""
    ran, out = tiny(), tmp_path / "run"
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


def test_the_best_weights_are_kept(tiny, tmp_path, monkeypatch):
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
    assert tiny().code == EXIT_DONE
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


def test_lines_without_a_terminal(tiny):
    """Catches a line for every step, which once came from a batch that goes beyond what was asked for."""
    ran = tiny()
    lines = [line for line in ran.err.splitlines() if line.startswith(("conversations:", "training:"))]
    assert 3 <= len(lines) <= 5, ran.err
    assert sum(line.startswith("conversations:") for line in lines) == 2


def test_own_conversations(tiny, tmp_path, chat_model):
    """Catches a file that is not used, or used beyond what was asked for."""
    data = write_messages(tmp_path / "own.jsonl", 40)
    ran = tiny("--data", data, "--tokens", 1_000_000)
    assert ran.code == EXIT_DONE, ran.err
    out = tmp_path / "run"
    plan = json.loads((out / "plan.json").read_text())
    corpus = load_file(out / "corpus" / "00000.safetensors")
    assert len(corpus["lengths"]) == 40
    assert plan["tokens"] == len(corpus["tokens"]) == sum(corpus["lengths"].tolist())
    text = byte_level().decode(corpus["tokens"][: corpus["lengths"][0]])
    assert (
        text == f"<|im_start|>user\n0. {SAID[0]}<|im_end|>\n<|im_start|>assistant\n0. {SAID[1]}<|im_end|>\n"
    )
    says(chat_model, out)
    card = (out / "README.md").read_text()
    assert "from own.jsonl" in card
    assert "40, " in card


def test_only_as_many_own_conversations_as_asked_for(tiny, tmp_path):
    """Catches an hour of training on a file of which a few lines were wanted."""
    data = write_messages(tmp_path / "own.jsonl", 40)
    assert tiny("--data", data, "--tokens", 300).code == EXIT_DONE
    lengths = load_file(tmp_path / "run" / "corpus" / "00000.safetensors")["lengths"]
    assert sum(lengths[:-1]) < 300 <= sum(lengths)


def test_long_and_short_conversations(tiny, tmp_path):
    """Catches a conversation beyond the context, and one without a pair that never ends a pass."""
    data = write_messages(tmp_path / "own.jsonl", 2, repeat=400)
    with data.open("a") as lines:
        lines.write(json.dumps({"messages": [{"role": "user", "content": ""}]}) + "\n")
    assert tiny("--data", data, "--tokens", 10_000, "--passes", 0.1).code == EXIT_DONE
    lengths = load_file(tmp_path / "run" / "corpus" / "00000.safetensors")["lengths"].tolist()
    assert lengths[:2] == [1024, 1024]
    assert lengths[2] < 20


def test_one_conversation_and_a_tenth_of_a_pass(tiny, tmp_path):
    """Catches a run too small for a single step."""
    data = write_messages(tmp_path / "own.jsonl", 1)
    assert tiny("--data", data, "--passes", 0.01).code == EXIT_DONE
    assert (tmp_path / "run" / "model.safetensors").is_file()


def a_line(**message: object) -> bytes:
    return json.dumps({"messages": [message]}).encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no conversations"),
        (b"\n \n", "holds no conversations"),
        (a_line(role="user", content="Hi") + b"\nhello\n", "line 2 is not JSON"),
        (b"[" * 100_000, "line 1 is not JSON"),
        (a_line(role="user", content="Hi") + b"\n\n[1]\n", 'line 3 lacks "messages"'),
        (b'{"turns": ["Hi"]}', 'line 1 lacks "messages"'),
        (b'{"messages": []}', 'line 1 lacks "messages"'),
        (b'{"messages": {"role": "user"}}', 'line 1 lacks "messages"'),
        (b'{"messages": ["Hi"]}', 'line 1: every message needs "role" and "content"'),
        (a_line(role="user"), 'line 1: every message needs "role" and "content"'),
        (a_line(role="user", content=["Hi"]), 'line 1: every message needs "role" and "content"'),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 'needs "role" and "content"'),
        (a_line(role="tool", content="Hi"), "line 1: a role is one of system, user, assistant, not 'tool'"),
        (a_line(content="Hi"), "line 1: a role is one of system, user, assistant, not None"),
        (b'{"messages": [{"role": "user", "content": "\xff"}]}', "is not UTF-8"),
    ],
)
def test_bad_messages(tmp_path, tiny, content, said):
    """Catches a traceback, or a run that is begun and cannot go on."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    if not content.strip():
        assert_refused(tiny("--data", path), str(path), said)
        assert not (tmp_path / "run").exists()
        return
    with pytest.raises(UsageError) as refused:
        list(read_conversations(path))
    assert str(path) in str(refused.value)
    assert said in str(refused.value)


def test_a_bad_line_stops_it_before_it_begins(tiny, tmp_path):
    """Catches a folder with half a run, which only --resume could go on with."""
    data = write_messages(tmp_path / "own.jsonl", 3)
    data.write_text(data.read_text() + "hello\n")
    assert_refused(tiny("--data", data), f"{data}, line 4 is not JSON")
    assert not (tmp_path / "run").exists()


def test_messages_that_the_template_refuses(tiny, tmp_path):
    """Catches a sentence that does not say which line."""
    strict = "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}"
    tokenizer = byte_level(
        strict + "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    )
    model = write_model(tmp_path / "strict", tokenizer, make_model(tokenizer))
    data = write_messages(tmp_path / "own.jsonl", 1)
    with data.open("ab") as lines:
        lines.write(a_line(role="assistant", content="Hi"))
    assert_refused(tiny("--data", data, model=model), f"{data}, line 2: ", "refuses this conversation")


def test_good_lines_are_not_refused(tmp_path):
    """Catches files that editors write: a byte order mark, blank lines, CRLF, odd characters in texts."""
    path = tmp_path / "good.jsonl"
    line = '{"messages": [{"role": "user", "content": "Hi\u2028there"}], "more": 1}'
    path.write_bytes(f"\ufeff{line}\r\n\r\n{line}".encode())
    assert [place for place, _ in read_conversations(path)] == [f"{path}, line 1", f"{path}, line 3"]


def test_options_that_cannot_be(tiny, tmp_path):
    """Catches a mistake that is found out late, with a traceback, or not at all."""
    (tmp_path / "file").write_text("")
    assert_refused(tiny("--resume"), "there is no run to resume", "leave --resume out")
    assert_refused(tiny("--minutes", 1, "--tokens", 9), "--minutes and --tokens both size the run")
    assert_refused(tiny("--minutes", 1, "--resume"), "--minutes sizes a new run")
    assert_refused(tiny("--dry-run", "--resume"), "leave --resume out")
    assert_refused(tiny(out=tmp_path / "file"), "is a file", "--out")
    assert_refused(tiny("--data", tmp_path / "none.jsonl"), "there is no file", "--data")
    assert_refused(tiny(out=tmp_path / "file" / "run"), "is a file", "--out")
    assert_refused(tiny("--method", "eagle3"), "2 are too few", "--method eagle2")


def test_a_folder_with_something_else(tiny, tmp_path):
    """Catches a README or a head that is overwritten."""
    for name in ("README.md", "model.safetensors", "config.json"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("mine")
        assert_refused(tiny(out=folder), f"has a {name}", "choose another folder")
        assert (folder / name).read_text() == "mine"


def test_a_disk_without_room(tiny, tmp_path):
    """Catches a run that fills the disk after a day."""
    ran = tiny("--tokens", 10**12)
    assert ran.code == EXIT_FAILURE
    assert "MB left, too few for this run" in ran.err.splitlines()[-1]
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory, chat_model) -> Path:
    """A folder with a whole run in it."""
    from eagle_chat.train import Job, train

    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("finished") / "run"
    assert train(Options(str(chat_model), dtype=Dtype.FP32), Job(out, tokens=1500)) == EXIT_DONE
    return out


def test_a_run_that_is_there(tiny, finished, tmp_path, chat_model):
    """Catches a run that is overwritten, or gone on with for other weights or from a damaged plan."""
    out = shutil.copytree(finished, tmp_path / "run")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert_refused(tiny(), "holds a run already", "--resume")
    assert_refused(tiny("--resume", "--tokens", 9), "cannot make it fewer")
    plan = json.loads((out / "plan.json").read_text())
    other = write_chat_model(tmp_path / "other", seed=2)
    (out / "plan.json").write_text(json.dumps(plan | {"model": str(other)}))
    assert_refused(tiny("--resume"), "has other weights than the run", "start another run")
    whole = json.dumps(plan)
    wrong = [json.dumps(plan | change) for change in ({"tokens": "many"}, {"model": None}, {"what": 1})]
    for damaged in ("", whole[:40], "[]", "7", "[" * 100_000, *wrong):
        (out / "plan.json").write_text(damaged)
        assert_refused(tiny("--resume"), "plan.json is damaged")
    (out / "plan.json").write_bytes(before[out / "plan.json"])
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert tiny("--dry-run").code == EXIT_DONE
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("count", [1, 2, 3])
def test_stopped_in_training(tiny, finished, tmp_path, monkeypatch, count):
    """Catches an update that is lost or done twice, or a look at held-out conversations that is skipped."""
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        interrupt_at(patched, Trained, count)
        ran = tiny()
    assert ran.code == EXIT_INTERRUPTED
    assert f"  eagle-chat train --out {out} --resume\n" in ran.err
    assert not (out / "model.safetensors").exists()
    assert (out / "training.svg").is_file()
    ran = tiny("--resume")
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


def test_stopped_at_the_last_step(tiny, finished, tmp_path, monkeypatch):
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
        assert tiny().code == EXIT_INTERRUPTED
    assert tiny("--resume").code == EXIT_DONE
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (finished / name).read_bytes()


def test_stopped_in_conversations(tiny, tmp_path, monkeypatch):
    """Catches what was written thrown away, or a repetition of it."""
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        interrupt_at(patched, Synthesised, 150)
        ran = tiny("--tokens", 4000)
    assert ran.code == EXIT_INTERRUPTED
    kept = load_file(out / "corpus" / "00000.safetensors")
    assert 64 < kept["lengths"][0] < 384
    assert tiny("--resume").code == EXIT_DONE
    after = load_file(out / "corpus" / "00000.safetensors")
    assert torch.equal(after["tokens"], kept["tokens"])
    assert (out / "corpus" / "00001.safetensors").is_file()
    assert_no_repeats(out)


def test_stopped_at_once(tiny, tmp_path, monkeypatch):
    """Catches a resumed run that needs what was never written."""
    with monkeypatch.context() as patched:
        interrupt_at(patched, Synthesised, 1)
        assert tiny().code == EXIT_INTERRUPTED
    assert tiny("--resume").code == EXIT_DONE


def test_stopped_in_own_conversations_and_features(tiny, tmp_path, monkeypatch):
    """Catches conversations left out or read twice."""
    monkeypatch.setattr("eagle_chat.training.SHARD_TOKENS", 500)
    data = write_messages(tmp_path / "own.jsonl", 30)
    for kind, count in ((Synthesised, 2), (Featured, 2), (Began, 1)):
        with monkeypatch.context() as patched:
            interrupt_at(patched, kind, count)
            ran = tiny(*(["--resume"] if kind is not Synthesised else ["--data", data, "--tokens", 9999]))
        assert ran.code == EXIT_INTERRUPTED, ran.err
    data.unlink()  # no longer needed
    assert tiny("--resume").code == EXIT_DONE
    shards = sorted((tmp_path / "run" / "corpus").glob("*.safetensors"))
    assert len(shards) > 2
    texts = [byte_level().decode(load_file(shard)["tokens"]) for shard in shards]
    assert "".join(texts).count("<|im_start|>user\n") == 30
    assert_no_repeats(tmp_path / "run")


def test_killed(tiny, finished, tmp_path):
    """Catches a log that says things twice where the state is older than the log, or has half a line."""
    out = tmp_path / "run"
    assert tiny("--tokens", 1500).code == EXIT_DONE
    state = torch.load(out / "state.pt", weights_only=True)
    whole = read_log(out / "training.jsonl")
    (out / "state.pt").unlink()
    lost = {"event": "conversations", "tokens": 99_999, "of": 100_000, "seconds": 70.0}
    with (out / "training.jsonl").open("a") as log:
        log.write(json.dumps(lost) + '\n{"event": "st')
    (out / "corpus" / "00000.safetensors").unlink()
    assert tiny("--resume").code == EXIT_DONE
    records = assert_no_repeats(out)
    assert [record["event"] for record in records] == [record["event"] for record in whole]
    assert torch.load(out / "state.pt", weights_only=True)["progress"]["pairs"] == state["progress"]["pairs"]


def test_resumed_when_done(tiny, finished, tmp_path):
    """Catches a second look at the end, or a head that is worse for it."""
    out = shutil.copytree(finished, tmp_path / "run")
    assert tiny("--resume").code == EXIT_DONE
    assert (out / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()
    assert len(assert_no_repeats(out)) == len(read_log(finished / "training.jsonl")) + 1


def test_made_longer(tiny, finished, tmp_path):
    """Catches a longer run that starts over."""
    out = shutil.copytree(finished, tmp_path / "run")
    ran = tiny("--resume", "--tokens", 3000)
    assert ran.code == EXIT_DONE, ran.err
    records = assert_no_repeats(out)
    starts = [record["pairs"] for record in records if record["event"] == "start"]
    assert starts[1] >= starts[0] + 6000 - 2000
    assert json.loads((out / "plan.json").read_text())["tokens"] == 3000
    looks = [record for record in records if record["event"] == "validation"]
    assert any(look["best"] for look in looks if look["pairs"] > starts[1])  # else the old head is kept


def test_duplicates_do_not_end_it(chat_model, tmp_path, monkeypatch):
    """Catches a run that fails at the same place for ever since its last conversation was said before."""
    target, prompts, location, stop_ids = load_for_training(
        Options(str(chat_model), dtype=Dtype.FP32), lambda event: None
    )
    plan = Plan(str(chat_model), "eagle2", location.sha256, 300, 1.0, 64, 2, 0.0, 0, None, "fp32")
    run = TrainingRun(tmp_path / "run", plan, target, prompts, stop_ids)
    for _ in run._write_conversations():
        pass
    (first,) = run.corpus.conversations()
    again = TrainingRun(tmp_path / "again", plan, target, prompts, stop_ids)
    words = again.synthesis().first_words
    monkeypatch.setattr(again.corpus, "conversations", lambda: iter([first]))  # said before
    for _ in again._write_conversations():
        pass
    assert len(again.corpus.places) == 1
    monkeypatch.undo()
    (second,) = again.corpus.conversations()
    assert words(first) != words(second)
    dull = TrainingRun(tmp_path / "dull", plan, target, prompts, stop_ids)
    monkeypatch.setattr("engine.training.Synthesis.first_words", lambda self, tokens: (1,))
    monkeypatch.setattr(dull.corpus, "conversations", lambda: iter([first]))
    with pytest.raises(UsageError, match="same conversations again and again"):
        list(dull._write_conversations())


def test_small_contexts(tiny, tmp_path):
    """Catches conversations longer than the target's context."""
    tokenizer = byte_level()
    model = write_model(tmp_path / "small", tokenizer, make_model(tokenizer, max_position_embeddings=128))
    assert tiny(model=model).code == EXIT_DONE
    assert max(load_file(tmp_path / "run" / "corpus" / "00000.safetensors")["lengths"]) == 128


def test_eagle3(tiny, tmp_path, deep_model):
    """Catches an EAGLE-3 head that is not recognised, or not the target's, with own conversations too."""
    for name, more in (("own", ["--data", write_messages(tmp_path / "own.jsonl", 20)]), ("its", [])):
        ran = tiny("--method", "eagle3", "--vocab", 100, *more, model=deep_model, out=tmp_path / name)
        assert ran.code == EXIT_DONE, ran.err
        _, summary = says(deep_model, tmp_path / name)
        assert summary["method"] == "eagle3"
        assert "EAGLE-3" in (tmp_path / name / "README.md").read_text()
        head = load_file(tmp_path / name / "model.safetensors")
        assert {"d2t", "t2d", "midlayer.self_attn.q_proj.weight"} <= head.keys()
        assert len(head["d2t"]) == 100


def test_trimmed_vocabulary(tiny, tmp_path, chat_model):
    """Catches a draft vocabulary that is not the most frequent tokens, or is not written."""
    assert tiny("--vocab", 64).code == EXIT_DONE
    out = tmp_path / "run"
    ids = load_file(out / "model.safetensors")["draft_vocab"]
    tokens = torch.cat([load_file(shard)["tokens"] for shard in (out / "corpus").glob("*.safetensors")])
    counts = torch.bincount(tokens)
    rest = [count for token, count in enumerate(counts.tolist()) if token not in ids.tolist()]
    assert len(ids) == 64
    assert counts[ids.long()].min() >= max(rest)
    says(chat_model, out)


def test_plot(finished, tmp_path):
    """Catches a picture that no viewer opens, or lacks a depth."""
    records = [
        {"event": "step", "pairs": n, "loss": [3.0, 3.5, 4.0], "agreement": [0.3, 0.2, 0.1]} for n in (10, 20)
    ]
    looks = [{"event": "validation", "pairs": 20, "loss": [3.0] * 5, "agreement": [0.3] * 5}]
    write_plot([*records, *looks], tmp_path / "plot.svg")
    count = {}
    for file in (tmp_path / "plot.svg", finished / "training.svg"):
        root = ElementTree.parse(file).getroot()
        count[file] = [len(root.findall(f".//{{*}}{tag}")) for tag in ("polyline", "circle")]
    assert count[tmp_path / "plot.svg"] == [2 * 3, 2 * 5 + 5]  # two panels; the legend has dots as well
    assert count[finished / "training.svg"][0] == 6
    write_plot([], tmp_path / "empty.svg")
    ElementTree.parse(tmp_path / "empty.svg")


def test_log_with_a_cut_line(tmp_path):
    """Catches a log that cannot be read after a crash, and a record glued to half of another."""
    file = tmp_path / "training.jsonl"
    file.write_bytes(b'{"event": "start", "pairs": 0}\n7\n{"event": "step", "pai\xc3')
    assert read_log(file) == [{"event": "start", "pairs": 0}]
    assert read_log(tmp_path / "none.jsonl") == []
    log = TrainingLog(file)
    log.record(Began(100, 200, 64, 0.5))
    assert [record["pairs"] for record in read_log(file)] == [0, 100]


def test_live_picture():
    """Catches a bar, a depth or the sign that Ctrl+C was heard missing from 80 columns."""
    stop = threading.Event()
    console = Console(width=80, height=24, record=True, force_terminal=True)
    with TrainingView(console, stop) as view:
        view.show(Synthesised(1_000_000, 1_000_000, 1_000_000, 3000.0))
        view.show(Featured(3, 3))
        view.show(Trained(2_000_000, 4_000_000, 0.001, Measured((2.0, 2.5, 3.0), (0.5, 0.4, 0.3)), 9.0))
        view.show(Validated(2_000_000, Measured((2.1,) * 5, (0.45,) * 5), True, 9.0))
        with console.capture() as captured:
            console.print(view._picture())
        picture = captured.get()
        stop.set()
        with console.capture() as captured:
            console.print(view._picture())
    for said in ("2,000,000 of 4,000,000 pairs", "depth 5", "0.450", "2.500", "3 of 3 shards"):
        assert said in picture
    assert "stopping" not in picture
    assert "stopping" in captured.get()
