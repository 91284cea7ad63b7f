"""`eagle-chat evaluate`: its numbers against the rounds they come from, and what it prints."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eagle_chat.cli import cli
from eagle_chat.errors import EXIT_DONE, EXIT_INTERRUPTED
from eagle_chat.events import Event, RoundDone
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Options
from eagle_chat.records import RoundRecord
from eagle_chat.session import ChatSession
from eagle_chat.text import Message, Prompts
from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.evaluation_runs import report_of, write_questions

pytestmark = pytest.mark.usefixtures("one_thread")

JSON_KEYS = {
    "tasks", "tau", "calibration", "expected_per_round", "accepted_per_round", "others", "model", "head",
    "method", "weights_sha256", "dtype", "seed", "temperature", "nodes", "depth", "beam",
    "max_new_tokens", "questions",
}  # fmt: skip
TASK_KEYS = {"tau", "rounds", "new_tokens", "accepted_by_depth"}


@pytest.fixture
def talk(tmp_path) -> Path:
    """One conversation of two turns."""
    return write_questions(tmp_path / "talk.jsonl", ["Write a poem.", "Again, but shorter."])


@pytest.fixture
def asked(monkeypatch) -> list[RoundRecord]:
    """Every round that a session yields, as the command sees them."""
    records: list[RoundRecord] = []
    ask = ChatSession.ask

    def watched(self: ChatSession, prompt: str, **how) -> Iterator[Event]:
        for event in ask(self, prompt, **how):
            if isinstance(event, RoundDone):
                records.append(event.record)
            yield event

    monkeypatch.setattr(ChatSession, "ask", watched)
    return records


def test_json_says_what_the_rounds_say(evaluate, sky, asked, chat_model, chat_head):
    """Catches a key that is missing or renamed, and numbers that are not those of the rounds."""
    report = report_of(evaluate("--questions", sky, "--json"))
    assert report.keys() == JSON_KEYS
    assert report["tasks"].keys() == {"sky"}
    task = report["tasks"]["sky"]
    assert task.keys() == TASK_KEYS
    drafted = [record for record in asked if record.index > 0]
    tokens = sum(len(record.new) for record in asked)
    assert (task["rounds"], task["new_tokens"]) == (len(drafted), tokens)
    assert task["tau"] == report["tau"] == (tokens - 3) / len(drafted)
    assert task["tau"] > 1.2  # the tiny head is right now and then
    for depth, share in enumerate(task["accepted_by_depth"], start=1):
        offered = [record for record in drafted if depth in record.tree.depths()]
        assert share == sum(record.accepted >= depth for record in offered) / len(offered)
    assert report["accepted_per_round"] == sum(record.accepted for record in drafted) / len(drafted)
    accepted = sum(round(one["count"] * (one["accepted_share"] or 0)) for one in report["calibration"])
    assert accepted == sum(record.accepted for record in drafted)
    assert len(report["calibration"]) == 10
    settings = {"seed": 0, "temperature": 0.0, "nodes": 8, "depth": 3, "beam": 4, "max_new_tokens": 12}
    settings |= {"model": str(chat_model), "head": str(chat_head), "method": "eagle2", "dtype": "fp32"}
    assert {key: report[key] for key in settings} == settings
    assert (report["questions"], report["others"]) == (3, {})


def test_a_run_of_the_same_prompt_agrees(evaluate, tmp_path, chat_model, chat_head):
    """Catches an evaluation that decodes otherwise than the chat does."""
    path = write_questions(tmp_path / "one.jsonl", ["Why?"])
    options = {"dtype": Dtype.FP32, "max_new_tokens": 12, "temperature": 1.0, "nodes": 8}  # as there
    session = load_session(Options(str(chat_model), str(chat_head), **options), lambda event: None)
    summary = list(session.ask("Why?", seed=5, stop=threading.Event()))[-1].summary
    report = report_of(evaluate("--questions", path, "--json", "-t", 1, "--seed", 5))
    assert (report["seed"], report["temperature"]) == (5, 1.0)
    assert {key: summary[key] for key in ("tau", "rounds", "new_tokens")}.items() <= report["tasks"][
        "one"
    ].items()


def test_other_heads_and_prompt_lookup(evaluate, sky, chat_head, tmp_path):
    """Catches drafters that are mixed up, or disturb each other through the target that they share."""
    same = shutil.copytree(chat_head, tmp_path / "same")
    arguments = ("--questions", sky, "--json")
    alone = report_of(evaluate(*arguments))
    lookup = report_of(evaluate(*arguments, "--against", same, "--pld", "--against", chat_head))
    assert lookup["others"].keys() == {"same", chat_head.name, "pld"}
    for other in lookup["others"].values():
        assert other.keys() == {"tasks", "tau"}
        assert other["tasks"]["sky"].keys() == TASK_KEYS
        assert other["tasks"]["sky"]["new_tokens"] == alone["tasks"]["sky"]["new_tokens"]
    assert lookup["others"]["same"] == {"tasks": alone["tasks"], "tau": alone["tau"]}
    assert lookup["others"]["pld"]["tau"] != alone["tau"]
    assert {**lookup, "others": {}} == alone


def test_heads_with_folders_of_the_same_name(evaluate, talk, chat_head, tmp_path):
    """Catches one head's numbers that take another's place."""
    folders = [shutil.copytree(chat_head, tmp_path / run / "head") for run in ("a", "b")]
    against = [part for folder in folders for part in ("--against", folder)]
    report = report_of(evaluate("--questions", talk, "--json", *against))
    assert report["others"].keys() == set(map(str, folders))


def test_turns_are_one_conversation(evaluate, talk, sky, monkeypatch):
    """Catches a second turn without what came before, and a question that sees the one before it."""
    seen: list[list[Message]] = []
    encode = Prompts.encode

    def watched(self: Prompts, messages: list[Message]) -> list[int]:
        seen.append([dict(message) for message in messages])
        return encode(self, messages)

    monkeypatch.setattr(Prompts, "encode", watched)
    report_of(evaluate("--questions", talk, sky, "--json", "--system", "Be brief."))
    asked = seen[-5:]
    roles = [[message["role"] for message in messages] for messages in asked]
    first, second = ["system", "user"], ["system", "user", "assistant", "user"]
    assert roles == [first, second, first, first, first]
    said = [message["content"] for message in asked[1]]
    assert (said[0], said[1], said[3]) == ("Be brief.", "Write a poem.", "Again, but shorter.")
    assert said[2]


def test_several_files_and_limit(evaluate, talk, sky):
    """Catches a file that is lost after the first, in any of the ways to give several."""
    ways = [
        ("--questions", sky, talk, "--limit", 1),
        ("--limit", 1, "--questions", sky, "--questions", talk),
        (sky, "--limit", 1, talk),
    ]
    reports = [report_of(evaluate(*way, "--json")) for way in ways]
    assert all(report["tasks"] == reports[0]["tasks"] for report in reports)
    assert reports[0]["tasks"].keys() == {"sky", "talk"}
    assert reports[0]["questions"] == 2
    assert reports[0]["tasks"]["sky"]["new_tokens"] == 12
    assert reports[0]["tasks"]["talk"]["new_tokens"] == 24
    assert reports[0]["tau"] == pytest.approx(sum(task["tau"] for task in reports[0]["tasks"].values()) / 2)


def test_default_length_is_its_own(command, tmp_path, chat_model, chat_head):
    """Catches the chat's default, and an option before the command that is lost to ours."""
    path = write_questions(tmp_path / "one.jsonl", ["Why?"])
    options = ("--model", chat_model, "--head", chat_head, "--dtype", "fp32")
    evaluate = ("evaluate", "--questions", path, "--json")
    assert report_of(command(*options, *evaluate))["max_new_tokens"] == 128
    assert report_of(command(*options, "--max-new-tokens", 5, *evaluate))["max_new_tokens"] == 5


def test_tables(evaluate, sky, talk, chat_head, tmp_path):
    """Catches a task, a drafter or a setting that is not shown."""
    other = shutil.copytree(chat_head, tmp_path / "other[1]")
    ran = evaluate("--questions", sky, talk, "--limit", 1, "--against", other, "--pld")
    assert (ran.code, ran.err) == (EXIT_DONE, "")
    lines = ran.out.splitlines()
    headings = [line for line in lines if "task" in line]
    assert [word in headings[0] for word in ("τ", "depth 1", "depth 3", "rounds", "tokens")] == [True] * 5
    assert [name in headings[1] for name in ("τ eagle2", "τ other[1]", "τ pld")] == [True] * 3
    for name in ("sky", "talk", "mean"):
        assert sum(f" {name} " in line for line in lines) == 2
    assert lines[-2].startswith("calibration: ")
    assert "2 questions" in lines[-1]
    assert "seed 0" in lines[-1]


def test_plain_decoding(command, sky, chat_model):
    """Catches a table that cannot be without drafts: plain decoding has a tau of one."""
    options = ("--model", chat_model, "--dtype", "fp32", "--max-new-tokens", 6, "--questions", sky)
    ran = command("evaluate", *options, "--method", "none")
    assert (ran.code, ran.err) == (EXIT_DONE, "")
    assert " 1.00 " in ran.out
    assert "no node with a probability" in ran.out
    report = report_of(command("evaluate", *options, "--method", "none", "--json"))
    assert (report["tau"], report["head"], report["calibration"]) == (1.0, None, [])


def test_one_token_a_reply(evaluate, sky):
    """Catches a division by zero where no round is run."""
    report = report_of(evaluate("--questions", sky, "--max-new-tokens", 1, "--json"))
    assert report["tasks"]["sky"] == {"tau": None, "rounds": 0, "new_tokens": 3, "accepted_by_depth": []}
    assert report["tau"] is None
    assert evaluate("--questions", sky, "--max-new-tokens", 1).code == EXIT_DONE


@pytest.mark.parametrize("as_json", [True, False])
def test_interrupt_shows_what_was_measured(evaluate, sky, talk, monkeypatch, as_json):
    """Catches Ctrl+C that throws an hour of measuring away, or is reported as success."""
    ask, prompts = ChatSession.ask, []

    def interrupted(self: ChatSession, prompt: str, **how) -> Iterator[Event]:
        prompts.append(prompt)
        if len(prompts) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        yield from ask(self, prompt, **how)

    monkeypatch.setattr(ChatSession, "ask", interrupted)
    ran = evaluate("--questions", sky, talk, *(["--json"] if as_json else []))
    assert ran.code == EXIT_INTERRUPTED
    assert ran.err == ""
    if as_json:
        report = json.loads(ran.out)
        assert report["tasks"].keys() == {"sky"}
        assert report["questions"] == 2
        assert report["tau"] > 1
    else:
        assert " sky " in ran.out
        assert "2 questions" in ran.out


def test_other_heads_that_cannot_be(evaluate, sky, chat_head, chat_model, tmp_path):
    """Catches a head that is missing, no head, or named twice, found out too late or with a traceback."""
    assert_refused(evaluate("--questions", sky, "--against", tmp_path / "none"), "There is no folder")
    twice = ("--against", chat_head, "--against", chat_head)
    assert_refused(evaluate("--questions", sky, *twice), "names the same head twice")
    assert_refused(evaluate("--questions", sky, "--against", chat_model), str(chat_model))


def test_prompt_lookup_against_itself(command, sky, chat_model):
    """Catches the same drafter measured twice under two names."""
    options = ("--model", chat_model, "--dtype", "fp32", "--questions", sky)
    assert_refused(command("evaluate", *options, "--method", "pld", "--pld"), "leave --pld out")


def test_help_says_how_to_give_files():
    """Catches an option without a line of help."""
    shown = CliRunner().invoke(cli, ["evaluate", "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == EXIT_DONE
    for word in ("--questions", "FILE", "--limit", "--against", "--pld", "--json", "--nodes", "128"):
        assert word in shown.output
