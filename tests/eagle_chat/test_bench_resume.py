"""`eagle-chat bench --resume`: goes on where it stopped, with the same figures, or says why it cannot."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from eagle_chat import bench_machine, bench_methods
from eagle_chat.bench_asking import Plan, ask
from eagle_chat.bench_resume import KeptReplies
from eagle_chat.benchmark import Asked, Reply
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, EagleChatError, UsageError
from tests.eagle_chat.conftest import Ran, assert_refused
from tests.eagle_chat.evaluation_runs import report_of, write_questions
from tests.eagle_chat.test_bench_asking import LAYOUT, parrots, said, tasks

pytestmark = pytest.mark.usefixtures("one_thread")

METHODS = ("--methods", "none,eagle2,transformers", "--nodes", 8)


@pytest.fixture
def replies(monkeypatch) -> list[str]:
    """The methods that reply from now on, in order, the warm-up's included; Ctrl+C comes with the eighth."""
    made: list[str] = []
    for kind in (bench_methods.EngineMethod, bench_methods.TransformersMethod):

        def counted(self, prompt: list[int], temperature: float, answer=kind.answer) -> Reply:
            made.append(self.name)
            if len(made) == 8:
                os.kill(os.getpid(), signal.SIGINT)
            return answer(self, prompt, temperature)

        monkeypatch.setattr(kind, "answer", counted)
    return made


@pytest.fixture
def kept(bench: Callable[..., Ran], sky: Path, tmp_path: Path) -> Path:
    """The file of a whole run."""
    path = tmp_path / "kept.jsonl"
    report_of(bench("--questions", sky, *METHODS, "--resume", path, "--json"))
    return path


def test_goes_on_after_ctrl_c(bench, sky, tmp_path, replies):
    """Catches replies that are lost, asked again or counted twice, and a turn on top of another reply."""
    path = tmp_path / "kept.jsonl"
    talk = write_questions(tmp_path / "talk.jsonl", ["Write a poem.", "Again, but shorter."])
    way = ("--questions", talk, sky, *METHODS, "--json")
    ran = bench(*way, "--resume", path)
    assert ran.code == EXIT_INTERRUPTED
    assert [row["replies"] for row in json.loads(ran.out)["results"]] == [1] * 3
    assert len(path.read_text().splitlines()) == 2
    replies[:] = ["not the eighth any more"] * 8
    report = report_of(bench(*way, "--resume", path))
    assert len(replies) - 8 == 3 + 4 * 3  # the warm-up, and all but the first prompt
    whole = report_of(bench(*way))
    for found, expected in zip(report["results"], whole["results"], strict=True):
        for key in ("method", "task", "tau", "new_tokens", "identical", "replies"):
            assert found[key] == expected[key]


def test_a_whole_run_is_only_shown(bench, sky, kept, replies):
    """Catches a warm-up, or an answer, where nothing is left to measure; figures that change."""
    before = kept.read_bytes()
    shown = [bench("--questions", sky, *METHODS, "--resume", kept, "--json") for _ in range(2)]
    assert replies == []
    assert kept.read_bytes() == before
    assert json.loads(shown[0].out)["summary"] == json.loads(shown[1].out)["summary"]


def test_a_line_that_was_torn_is_asked_again(bench, sky, kept, replies):
    """Catches a file that a power cut has made useless, or a new line at the end of half an old one."""
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-30])
    assert bench("--questions", sky, *METHODS, "--resume", kept).code == EXIT_DONE
    assert replies == ["none", "eagle2", "transformers", "transformers", "none", "eagle2"]
    assert len(kept.read_bytes().splitlines()) == len(whole.splitlines())
    assert all(json.loads(line) for line in kept.read_bytes().splitlines())


def test_other_settings_are_refused(bench, sky, kept, tmp_path, monkeypatch):
    """Catches replies of two different measurements in one figure."""
    ask_ = ("--questions", sky, "--resume", kept)
    talk = write_questions(tmp_path / "talk.jsonl", ["Write a poem."], ["Hm?"], ["And?"])
    for words, parts in (
        ((*ask_, *METHODS[:2], "--nodes", 9), ("begun with nodes 8, and now it is 9",)),
        ((*ask_, "--methods", "none,eagle2", "--nodes", 8), ("begun with methods",)),
        ((*ask_, *METHODS, "--temperatures", "0,1"), ("begun with temperatures [0.0], and now",)),
        ((*ask_, *METHODS, "--repetition-penalty", 1.1), ("begun with repetition_penalty 1.0, and now",)),
        ((*ask_, *METHODS, "--system", "Hm."), ("begun with system null, and now it is Hm.",)),
        ((*ask_, *METHODS, "--limit", 2), ("begun with prompts 3, and now it is 2",)),
    ):
        assert_refused(bench(*words), *parts)
    assert_refused(bench("--questions", talk, "--resume", kept, *METHODS), "begun with tasks")
    monkeypatch.setattr(bench_machine, "processor", lambda: "another")
    assert_refused(
        bench(*ask_, *METHODS), "begun with processor", "now it is another", "same options, weights"
    )


def test_other_weights_are_refused(command, sky, kept, tmp_path, chat_model, chat_head):
    """Catches a head that was trained on in the meantime, under the same name."""
    head = shutil.copytree(chat_head, tmp_path / chat_head.name)
    from safetensors.torch import load_file, save_file

    tensors = load_file(head / "model.safetensors")
    save_file({name: tensor * 1.01 for name, tensor in tensors.items()}, head / "model.safetensors")
    options = ("--model", chat_model, "--head", head, "--dtype", "fp32", "--max-new-tokens", "12")
    assert_refused(
        command("bench", *options, "--questions", sky, *METHODS, "--resume", kept), "was begun with heads"
    )


def test_threads_are_those_of_the_beginning(bench, sky, kept, monkeypatch):
    """Catches a run that cannot go on because two threads were the faster ones this time."""
    lines = kept.read_text().splitlines()
    header = json.loads(lines[0])
    header["machine"] |= {"threads": 2, "date": "2020-01-01"}
    kept.write_text("\n".join((json.dumps(header), *lines[1:])) + "\n")
    chosen: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    assert bench("--questions", sky, *METHODS, "--resume", kept).code == EXIT_DONE
    assert chosen[-1] == 2


@pytest.mark.parametrize(
    ("change", "said_"),
    [
        (lambda lines: [b"{}", *lines[1:]], "holds no replies of a benchmark"),
        (lambda lines: [b'{"bench": 1, "settings": {}}'], "holds no replies of a benchmark"),
        (lambda lines: [b"hello"], "line 1 is damaged"),
        (
            lambda lines: [lines[0], lines[1].replace(b'"rounds": ', b'"rounds": [], "x": ')],
            "line 2 is damaged",
        ),
        (lambda lines: [lines[0], b'{"task": "sky"}'], "line 2 is damaged"),
        (lambda lines: [lines[0], lines[1].replace(b'"eagle2"', b'"eagle"')], "line 2 is damaged"),
        (
            lambda lines: [lines[0], lines[1].replace(b'"sky"', b'"sea"')],
            "to other prompts (in sea, where sky",
        ),
    ],
)
def test_what_is_no_file_of_ours(bench, sky, kept, change, said_):
    """Catches a traceback, or somebody's file that is written into."""
    content = b"\n".join(change(kept.read_bytes().splitlines())) + b"\n"
    kept.write_bytes(content)
    assert_refused(
        bench("--questions", sky, *METHODS, "--resume", kept), said_, "give another file as --resume"
    )
    assert kept.read_bytes() == content


def test_what_cannot_be_a_file(bench, sky, tmp_path):
    """Catches an hour of measuring that has nowhere to go, and a text without a line that is overwritten."""
    notes = tmp_path / "notes.txt"
    notes.write_text("remember the milk")
    for path in (tmp_path, tmp_path / "no" / "such.jsonl", notes):
        assert_refused(bench("--questions", sky, "--resume", path), str(path), "--resume")
    assert notes.read_text() == "remember the milk"


def test_a_full_disk_takes_no_figures(bench, sky, tmp_path, monkeypatch):
    """Catches an hour of measuring that ends in one sentence, and nothing else."""
    add, path = KeptReplies.add, tmp_path / "kept.jsonl"

    def full(self: KeptReplies, asked: Asked) -> None:
        if len(path.read_text().splitlines()) == 3:
            raise EagleChatError(f"{path} cannot be written")
        add(self, asked)

    monkeypatch.setattr(KeptReplies, "add", full)
    ran = bench("--questions", sky, *METHODS, "--resume", path, "--json")
    assert (ran.code, ran.err) == (EXIT_FAILURE, f"eagle-chat: {path} cannot be written\n")
    assert [row["replies"] for row in json.loads(ran.out)["results"]] == [3, 3, 3]


def test_known_replies_keep_the_order():
    """Catches a rotation that begins anew: the rest must be asked as if nothing had come between."""
    plan = Plan(tasks(("a", "b"), ("c",)), (0.0, 1.0), repeats=2)
    contenders, log = parrots("none", "eagle2")
    whole = list(ask(plan, contenders, LAYOUT))
    for known in (0, 1, 5, len(whole)):
        log.clear()
        rest = list(ask(plan, contenders, LAYOUT, whole[:known]))
        assert rest == whole[known:]
        assert [list(one.replies) for one in rest] == [list(one.replies) for one in whole[known:]]
        assert len(log) == 2 * len(rest)


def test_lines_hold_all_of_a_reply(tmp_path):
    """Catches a field that is lost on the way to the file and back."""
    contenders, _ = parrots("none", "eagle2")
    (asked,) = ask(Plan(tasks(("a",))), contenders, LAYOUT)
    path = tmp_path / "kept.jsonl"
    file = KeptReplies(path)
    settings, machine = {"methods": ["none", "eagle2"]}, {"threads": 3, "date": "today"}
    file.begin(settings, machine)
    file.add(asked)
    again = KeptReplies(path)
    assert again.known == [asked]
    assert said(again.known[0].prompt) == "a"
    assert again.threads == 3
    again.begin(settings, machine | {"date": "tomorrow"})
    with pytest.raises(UsageError, match="was begun with methods"):
        again.begin({"methods": ["none"]}, machine)
