"""`eagle-chat bench`: from the command line to the JSON object, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace

import pytest
from transformers import GenerationConfig, LlamaForCausalLM
from typer.testing import CliRunner

from eagle_chat import bench_heads, bench_methods
from eagle_chat.bench_methods import EngineMethod
from eagle_chat.benchmark import Reply
from eagle_chat.cli import cli
from eagle_chat.errors import EXIT_DONE, EXIT_INTERRUPTED
from eagle_chat.questions import TASKS
from eagle_chat.text import Prompts
from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.evaluation_runs import report_of, write_questions

pytestmark = pytest.mark.usefixtures("one_thread")

ALL = "none,eagle2,pld,transformers,transformers-pld"
RESULT_KEYS = {
    "method", "task", "temperature", "new_tokens", "rounds", "tau", "tokens_per_second", "vs_plain",
    "vs_plain_interval", "vs_transformers", "vs_transformers_interval", "identical", "differences",
    "near_ties", "replies",
}  # fmt: skip
MACHINE_KEYS = {
    "processor", "cores", "device", "gpu", "threads", "torch", "transformers", "dtype", "quant", "model",
    "weights_sha256", "date",
}  # fmt: skip


@pytest.fixture
def broken(monkeypatch) -> None:
    """EAGLE-2 that says another last token than it should."""
    answer = EngineMethod.answer

    def wrong(self: EngineMethod, prompt: list[int], temperature: float) -> Reply:
        reply = answer(self, prompt, temperature)
        if self.name != "eagle2":
            return reply
        return replace(reply, tokens=(*reply.tokens[:-1], reply.tokens[-1] + 1))

    monkeypatch.setattr(EngineMethod, "answer", wrong)


def test_all_methods(bench, sky, chat_model, chat_head):
    """Catches a method that is lost, mixed up with another, or says another text in fp32; a lost key."""
    report = report_of(bench("--questions", sky, "--methods", ALL, "--repeats", 2, "--nodes", 8, "--json"))
    assert report.keys() == {"results", "summary", "settings", "machine"}
    found = {row["method"]: row for row in report["results"]}
    assert list(found) == ALL.split(",") == list(report["summary"]["0"])
    for name, row in found.items():
        assert row.keys() == RESULT_KEYS
        assert (row["task"], row["temperature"], row["replies"]) == ("sky", 0.0, 6)
        assert (name, row["identical"], row["differences"], row["near_ties"]) == (name, True, 0, 0)
        assert row["tokens_per_second"] > 0
    assert found["none"]["tau"] == found["transformers"]["tau"] == found["none"]["vs_plain"] == 1
    assert found["transformers"]["vs_transformers"] == 1
    assert found["none"]["vs_transformers"] == pytest.approx(1 / found["transformers"]["vs_plain"], rel=0.5)
    assert found["eagle2"]["tau"] > 1.2  # the tiny head is right now and then
    assert found["pld"]["tau"] != found["eagle2"]["tau"]
    machine, settings = report["machine"], report["settings"]
    assert machine.keys() == MACHINE_KEYS
    assert (machine["model"], machine["dtype"], machine["threads"]) == ("tiny", "fp32", 1)
    assert (settings["head"], settings["repeats"], settings["prompts"]) == ("tiny-head", 2, 6)
    assert (settings["seed"], settings["max_new_tokens"], settings["nodes"]) == (0, 12, 8)
    assert str(chat_model.parent) not in json.dumps(report)


def test_tau_is_that_of_evaluate(bench, evaluate, sky):
    """Catches a benchmark that decodes otherwise than the rest of the application."""
    asked = ("--questions", sky, "--methods", "none,eagle2", "--nodes", 8, "--json", "-t", 1, "--seed", 5)
    report = report_of(bench(*asked))
    other = report_of(evaluate("--questions", sky, "--json", "-t", 1, "--seed", 5))
    assert report["results"][1]["tau"] == other["tau"]
    assert report["results"][1]["temperature"] == 1.0


def test_temperatures(bench, sky):
    """Catches a temperature that is ignored: sampling gives another tau, and texts to compare among ours."""
    way = ("--questions", sky, "--methods", ALL, "--temperatures", "0, 1.0,0", "--nodes", 8, "--json")
    report = report_of(bench(*way))
    found = {(row["temperature"], row["method"]): row for row in report["results"]}
    assert len(found) == len(report["results"]) == 10
    assert found[1.0, "eagle2"]["identical"] is True
    assert found[1.0, "transformers"]["identical"] is found[1.0, "transformers-pld"]["identical"] is None
    assert found[1.0, "transformers"]["vs_plain"] > 0
    assert found[1.0, "eagle2"]["tau"] != found[0.0, "eagle2"]["tau"]


def test_methods_without_transformers(bench, sky, monkeypatch):
    """Catches a second copy of the model that nobody asked for."""
    monkeypatch.setattr(bench_methods, "stock_copy", lambda target: pytest.fail("loaded again"))
    report = report_of(bench("--questions", sky, "--methods", "eagle2,pld", "--nodes", 8, "--json"))
    for row in report["results"]:
        assert (row["vs_plain"], row["vs_transformers"], row["identical"]) == (None, None, None)
        assert row["tau"] > 1


def test_default_methods(bench, command, sky, chat_model):
    """Catches a default that leaves the head or a baseline out, and --method without effect."""
    report = report_of(bench("--questions", sky, "--json"))
    assert list(report["summary"]["0"]) == ["none", "eagle2+pld", "transformers"]
    options = ("--model", chat_model, "--dtype", "fp32", "--max-new-tokens", 4, "--questions", sky, "--json")
    report = report_of(command("bench", "--method", "pld", *options))
    assert list(report["summary"]["0"]) == ["none", "pld", "transformers"]


def test_draft_model(command, sky, chat_model):
    """Catches --head that is taken for a draft head."""
    options = ("--model", chat_model, "--head", chat_model, "--dtype", "fp32", "--max-new-tokens", 8)
    report = report_of(
        command("bench", *options, "--methods", "none,draft-model", "--questions", sky, "--json")
    )
    row = report["results"][1]
    assert (row["identical"], row["method"]) == (True, "draft-model")
    assert row["tau"] > 3  # it drafts for itself, and is always right


def test_turns_and_tasks(bench, sky, tmp_path, monkeypatch):
    """Catches turns that are not asked, or on top of nothing, and a file that is lost after the first."""
    talk = write_questions(tmp_path / "talk.jsonl", ["Write a poem.", "Again, but shorter."])
    seen: list[list[str]] = []
    encode = Prompts.encode

    def watched(self: Prompts, messages: list[dict[str, str]]) -> list[int]:
        seen.append([message["role"] for message in messages])
        return encode(self, messages)

    monkeypatch.setattr(Prompts, "encode", watched)
    way = (
        "--questions",
        sky,
        talk,
        "--limit",
        1,
        "--methods",
        "eagle2,none",
        "--system",
        "Be brief.",
        "--json",
    )
    report = report_of(bench(*way))
    replies = {(row["task"], row["method"]): row["replies"] for row in report["results"]}
    assert replies == {("sky", "eagle2"): 1, ("sky", "none"): 1, ("talk", "eagle2"): 2, ("talk", "none"): 2}
    assert seen[-1] == ["system", "user", "assistant", "user"]


def test_settings_of_the_model_do_not_leak(bench, sky, chat_model, tmp_path):
    """Catches a penalty or sampling of the model's generation_config, which only `generate` would obey."""
    model = shutil.copytree(chat_model, tmp_path / "model")
    config = GenerationConfig.from_pretrained(model)
    config.update(repetition_penalty=1.9, do_sample=True, temperature=5.0, top_k=3, top_p=0.5)
    config.save_pretrained(model)
    assert LlamaForCausalLM.from_pretrained(model).generation_config.repetition_penalty == 1.9
    report = report_of(bench("--questions", sky, "--model", model, "--methods", ALL, "--json"))
    assert [row["identical"] for row in report["results"]] == [True] * 5


def test_penalty_reaches_every_method(bench, sky):
    """Catches a shared option that transformers is not told."""
    way = ("--questions", sky, "--methods", ALL, "--repetition-penalty", 1.5, "--json")
    assert [row["identical"] for row in report_of(bench(*way))["results"]] == [True] * 5


@pytest.mark.usefixtures("broken")
def test_a_difference_in_fp32_is_one(bench, sky, monkeypatch):
    """Catches a wrong text that is passed over, or excused as a near tie where nothing rounds."""
    monkeypatch.setattr(bench_methods, "top2_gap", lambda *about: 0.0)
    report = report_of(bench("--questions", sky, "--methods", "none,eagle2", "--json"))
    row = report["results"][1]
    assert (row["identical"], row["differences"], row["near_ties"]) == (False, 3, 0)
    assert "✗ 3 of 3" in bench("--questions", sky, "--methods", "none,eagle2").out


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("gap", "near_ties"), [(0.1, 3), (3.0, 0)])
def test_half_precision_asks_fp32(bench, sky, monkeypatch, gap, near_ties):
    """Catches a difference that fp32 is not asked about, or whose answer is turned around."""
    asked: list[tuple[str, int]] = []

    def measured(model, prefix, settings) -> float:
        asked.append((str(model.dtype), settings.seed))
        return gap

    monkeypatch.setattr(bench_methods, "top2_gap", measured)
    way = ("--questions", sky, "--dtype", "bf16", "--seed", 4, "--max-new-tokens", 3)
    row = report_of(bench(*way, "--methods", "none,eagle2", "--json"))["results"][1]
    assert (row["identical"], row["differences"], row["near_ties"]) == (False, 3, near_ties)
    assert asked == [("torch.float32", 4)] * 3


@pytest.mark.usefixtures("broken")
def test_ctrl_c_while_fp32_is_asked(bench, sky, monkeypatch):
    """Catches differences that nobody has looked at, and that are shown as wrong texts."""
    monkeypatch.setattr(bench_methods, "top2_gap", lambda *about: os.kill(os.getpid(), signal.SIGINT) or 3.0)
    way = ("--questions", sky, "--dtype", "bf16", "--max-new-tokens", 3, "--methods", "none,eagle2", "--json")
    ran = bench(*way)
    row = json.loads(ran.out)["results"][1]
    assert (ran.code, row["differences"], row["near_ties"]) == (EXIT_INTERRUPTED, 3, None)


def test_one_token_a_reply(bench, sky):
    """Catches a division by zero where no round is run."""
    report = report_of(bench("--questions", sky, "--max-new-tokens", 1, "--methods", ALL, "--json"))
    for row in report["results"]:
        assert row["tau"] is row["tokens_per_second"] is row["vs_plain"] is row["vs_transformers"] is None
        assert row["identical"] is True
    assert bench("--questions", sky, "--max-new-tokens", 1).code == EXIT_DONE


def test_table(bench, sky):
    """Catches a table that is printed on the wrong stream or without what it was measured on."""
    ran = bench("--questions", sky, "--limit", 1)
    assert (ran.code, ran.err) == (EXIT_DONE, "")
    for part in (
        " none ",
        " eagle2+pld ",
        " transformers ",
        "temperature 0",
        " yes ",
        "1 reply by each",
        "fp32",
    ):
        assert part in ran.out


@pytest.mark.parametrize("method", ["none", "transformers"])
def test_interrupt_shows_what_was_measured(bench, sky, monkeypatch, method):
    """Catches Ctrl+C that `generate` does not see, that loses everything, or is reported as success."""
    names = {"none": "EngineMethod", "transformers": "TransformersMethod"}
    kind = getattr(bench_methods, names[method])
    answer, prompts = kind.answer, []

    def interrupted(self, prompt: list[int], temperature: float) -> Reply:
        if self.name == method:
            prompts.append(prompt)
        if len(prompts) == 3 and self.name == method:  # the warm-up, the first question, the second one
            os.kill(os.getpid(), signal.SIGINT)
        return answer(self, prompt, temperature)

    monkeypatch.setattr(kind, "answer", interrupted)
    ran = bench("--questions", sky, "--methods", "none,eagle2,transformers", "--json")
    assert (ran.code, ran.err) == (EXIT_INTERRUPTED, "")
    assert [row["replies"] for row in json.loads(ran.out)["results"]] == [1, 1, 1]
    assert len(prompts) == 3


def test_what_cannot_be_measured(bench, command, sky, chat_model):
    """Catches a bad option that is found out after loading, or answered with a traceback."""
    ask = ("--questions", sky)
    assert_refused(bench(*ask, "--methods", "none,guess"), "'guess'", *bench_heads.METHODS)
    assert_refused(bench(*ask, "--methods", ""), "--methods knows no ''")
    assert_refused(bench(*ask, "--methods", "eagle2,draft-model"), "could be for eagle2 or draft-model")
    assert_refused(bench(*ask, "--methods", "none", "--method", "eagle2"), "--method has no use")
    assert_refused(bench(*ask, "--methods", "none,pld"), "has no use: none of none, pld wants a head")
    assert_refused(bench(*ask, "--methods", "eagle3"), "not for eagle3")
    assert_refused(bench(), "there are no questions")
    for temperatures in ("hot", "0,", "-1", "1e-9", "inf", "nan"):
        assert_refused(bench(*ask, "--temperatures", temperatures), "--temperatures has", "at least 0.001")
    for methods in ((), ("--methods", "none,eagle2")):
        ran = command("bench", "--model", chat_model, *ask, *methods)
        assert_refused(ran, "no eagle2 head is known", "cannot be measured", "--head")


def test_help_says_how_to_give_methods():
    """Catches an option without a line of help, and a method that nobody is told of."""
    shown = CliRunner().invoke(cli, ["bench", "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == EXIT_DONE
    options = ("--questions", "--tasks", "--methods", "--temperatures", "--repeats", "--limit", "--csv")
    for word in (*options, "--markdown", "--resume", "METHOD=FOLDER", "128", *TASKS, *bench_heads.METHODS):
        assert word in shown.output
