"""The command line: options in; text, JSON and exit codes out."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import fields, replace

import pytest
from typer.testing import CliRunner

from eagle_chat import __version__
from eagle_chat.cli import cli
from eagle_chat.comparison import find_difference
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Method, Options, TargetKind
from eagle_chat.session import ChatSession, Exchange
from eagle_chat.trace import read_trace
from engine import LeanTarget
from engine.near_tie import top2_gap
from tests.eagle_chat.conftest import SUMMARY_KEYS, Ran

pytestmark = pytest.mark.usefixtures("one_thread")

Tiny = Callable[..., Ran]


@pytest.fixture
def tiny(command, chat_model, chat_head) -> Tiny:
    """`eagle-chat run` with the tiny model and its head."""
    options = ("--model", chat_model, "--head", chat_head, "--dtype", "fp32", "--max-new-tokens", "30")

    def run(*args: object, stdin: bytes = b"") -> Ran:
        return command("run", *args, *options, stdin=stdin)

    return run


def bare(text: str) -> str:
    """Without colours, on one line."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


def test_help_names_every_option():
    """Catches an option without a line of help, or a command that lost one of the shared options."""
    for command in ([], ["run"]):
        shown = CliRunner().invoke(cli, [*command, "--help"], env={"COLUMNS": "200"})
        assert shown.exit_code == 0
        for field in fields(Options):
            assert f"--{field.name.replace('_', '-')}" in bare(shown.output)
    for option in ("--json", "--trace", "--compare"):
        assert option in bare(shown.output)


def test_version():
    """Catches a version that is not the package's, or starts anything."""
    for flag in ("--version", "-V"):
        shown = CliRunner().invoke(cli, [flag])
        assert (shown.exit_code, shown.output) == (0, f"eagle-chat {__version__}\n")


def test_text_is_streamed_to_standard_output_alone(tiny):
    """Catches narration in the text, or text that differs from the JSON's."""
    text, report = tiny("Hi", "--seed", 4), json.loads(tiny("Hi", "--json", "--seed", 4).out)
    assert text.code == 0
    assert text.out == report["text"] + "\n"
    line = r"30 tokens · [\d.]+ tok/s · τ [\d.]+ · eagle2\+pld · seed 4 · cut at --max-new-tokens\n"
    assert re.fullmatch(line, text.err)


def test_json_is_one_object(tiny, chat_model):
    """Catches a key of the contract that is missing or renamed, and anything else on standard output."""
    ran = tiny("Hi", "--json", "--seed", 9)
    assert ran.code == 0
    assert ran.out.count("\n") == 1
    report = json.loads(ran.out)
    assert report.keys() == set(SUMMARY_KEYS)
    assert set(report["timings_ms"]) == {"prefill", "draft", "verify", "other"}
    assert sum(report["timings_ms"].values()) == pytest.approx(1000 * report["seconds"])
    assert (report["seed"], report["new_tokens"], report["model"]) == (9, 30, str(chat_model))
    assert re.fullmatch("[0-9a-f]{64}", report["weights_sha256"])


def test_random_seed_is_reported_and_repeats(tiny):
    """Catches a sampled reply that nobody can get again."""
    first = json.loads(tiny("Hi", "--json", "-t", 1).out)
    second = json.loads(tiny("Hi", "--json", "-t", 1).out)
    assert first["seed"] != second["seed"]
    again = json.loads(tiny("Hi", "--json", "-t", 1, "--seed", first["seed"]).out)
    assert again["tokens"] == first["tokens"]


@pytest.mark.parametrize("temperature", [0, 1])
def test_compare(tiny, temperature):
    """Catches speculation that changes the text, or a comparison that lacks what the contract promises."""
    ran = tiny("Hi", "--json", "--compare", "-t", temperature)
    report = json.loads(ran.out)
    compare = report.pop("compare")
    assert report.keys() == compare["plain"].keys() == set(SUMMARY_KEYS)
    assert compare.keys() >= {"speedup", "identical", "first_difference", "plain"}
    assert compare["identical"] is True
    assert compare["first_difference"] is None
    assert compare["speedup"] > 0
    assert compare["plain"]["tokens"] == report["tokens"]
    assert (compare["plain"]["method"], compare["plain"]["tau"]) == ("none", 1.0)
    assert compare["plain"]["seed"] == report["seed"]
    assert "same text" in ran.err


def test_compared_runs_both_start_from_nothing(tiny, monkeypatch):
    """Catches plain decoding that finds the prompt in the cache, and so looks faster than it is."""
    read: list[int] = []
    extend = LeanTarget.extend

    def watched(self: LeanTarget, tokens: list[int], *rest: int):
        read.append(len(tokens))
        return extend(self, tokens, *rest)

    monkeypatch.setattr(LeanTarget, "extend", watched)
    assert tiny("Why is the sky blue?", "--compare").code == 0
    assert read[-1] == read[-2] > 20


def test_compare_reports_the_first_difference(tiny, monkeypatch, chat_model):
    """Catches a difference that is hidden, or reported at the wrong place; here the seeds differ."""
    reply = ChatSession._reply

    def other_seed(self: ChatSession, exchange: Exchange, method: str, stop: threading.Event, again: bool):
        settings = replace(exchange.settings, seed=exchange.settings.seed + again)
        return reply(self, replace(exchange, settings=settings), method, stop, again)

    monkeypatch.setattr(ChatSession, "_reply", other_seed)
    ran = tiny("Hi", "--json", "--compare", "-t", 1, "--seed", 3)
    report = json.loads(ran.out)
    compare, tokens, plain = report["compare"], report["tokens"], report["compare"]["plain"]["tokens"]
    assert compare["identical"] is False
    difference = compare["first_difference"]
    at = next(i for i, pair in enumerate(zip(tokens, plain, strict=True)) if len(set(pair)) > 1)
    found = [difference[key] for key in ("index", "token", "plain_token")]
    assert found == [at, tokens[at], plain[at]]
    stock = TargetKind.STOCK
    options = Options(str(chat_model), method=Method.NONE, dtype=Dtype.FP32, temperature=1, target=stock)
    session = load_session(options, lambda event: None)
    prefix = session.prompts.encode([{"role": "user", "content": "Hi"}]) + tokens[:at]
    gap = top2_gap(session.engine.target.model, prefix, replace(session.settings, seed=3))
    assert difference["fp32_gap"] == pytest.approx(gap, rel=1e-4)
    assert gap > 0
    assert f"differs from token {at + 1} on" in ran.err or f"same text for {at} tokens, then" in ran.err


@pytest.mark.parametrize(
    ("tokens", "others", "stopped", "index"),
    [
        ([1, 2, 3], [1, 2, 3], False, None),
        ([1, 2, 3], [1, 4, 3], False, 1),
        ([1, 2], [1, 2, 3], False, 2),
        ([], [1], False, 0),
        ([1, 2], [1, 2, 3], True, None),
        ([1, 2], [1, 4, 3], True, 1),
    ],
)
def test_where_two_runs_differ(tokens, others, stopped, index):
    """Catches a text that merely ends earlier being called identical, unless the user ended it."""
    drafted = {"tokens": tokens, "stopped_by": "user" if stopped else "stop_token"}
    found = find_difference(drafted, {"tokens": others, "stopped_by": "stop_token"})
    assert (None if found is None else found.index) == index
    if found is not None:
        at = [run[index] if index < len(run) else None for run in (tokens, others)]
        assert [found.token, found.plain_token] == at


def test_trace_of_a_run(tiny, tmp_path):
    """Catches a trace that lacks rounds, the target's probabilities or the summary."""
    path = tmp_path / "trace.jsonl"
    report = json.loads(tiny("Wörum?", "--json", "--nodes", 8, "--trace", path).out)
    trace = read_trace(path)
    assert [token for done in trace.rounds for token in done.record.new] == report["tokens"]
    assert "".join(done.text for done in trace.rounds) == report["text"]
    assert trace.summary == report
    assert (trace.header["prompt"], trace.header["seed"]) == ("Wörum?", report["seed"])
    assert trace.rounds[1].record.tree.target is not None
    assert trace.rounds[1].record.tree.dropped


def test_comparison_is_not_in_the_trace(tiny, tmp_path):
    """Catches a trace with two replies in it."""
    path = tmp_path / "trace.jsonl"
    report = json.loads(tiny("Hi", "--json", "--compare", "--trace", path).out)
    assert len(read_trace(path).rounds) == report["rounds"] + 1


def test_prompt_on_standard_input(tiny, command, chat_model):
    """Catches a pipe that is ignored, waited for, or gives another reply than the same text as argument."""
    said = tiny("Ça va?").out
    for ran in (tiny(stdin="Ça va?\n".encode()), tiny("-", stdin="Ça va?".encode())):
        assert (ran.code, ran.out) == (0, said)
    options = ("--model", chat_model, "--dtype", "fp32", "--max-new-tokens", "30")
    ran = command(*options, stdin="Ça va?\n".encode())  # no command at all
    assert (ran.code, ran.out) == (0, said)


def test_options_before_and_after_the_command(command, chat_model, chat_head):
    """Catches options that are lost before the command, or win over the ones after it."""
    before = (
        "--model",
        chat_model,
        "--head",
        chat_head,
        "--dtype",
        "fp32",
        "--seed",
        3,
        "--max-new-tokens",
        5,
    )
    report = json.loads(command(*before, "-t", 0.5, "run", "Hi", "--json").out)
    assert [report[key] for key in ("seed", "new_tokens", "temperature", "method")] == [
        3,
        5,
        0.5,
        "eagle2+pld",
    ]
    report = json.loads(command(*before, "run", "Hi", "--json", "--seed", 4, "--max-new-tokens", 7).out)
    assert [report[key] for key in ("seed", "new_tokens", "temperature")] == [4, 7, 0.0]
    report = json.loads(command(*before, "-t", 1, "run", "Hi", "--json", "-t", 0).out)
    assert report["temperature"] == 0.0


@pytest.mark.parametrize("method", ["none", "pld", "draft-model"])
def test_other_methods(command, chat_model, method):
    """Catches a method that cannot be run from the command line, or changes the text."""
    options = ("--model", chat_model, "--dtype", "fp32", "--max-new-tokens", "30", "--method", method)
    head = ("--head", chat_model) if method == "draft-model" else ()
    report = json.loads(command("run", "Hi", "--json", "--compare", *options, *head).out)
    assert report["method"] == method
    assert report["compare"]["identical"]
    assert (report["tau"] > 3) == (method == "draft-model")  # it drafts with the target itself


def test_no_head_is_said_once(command, chat_model):
    """Catches a silent fall-back from EAGLE-2 to prompt lookup."""
    ran = command("run", "Hi", "--model", chat_model, "--max-new-tokens", 3)
    assert ran.code == 0
    assert ran.err.count("so prompt lookup drafts; --head names one") == 1


def test_terminal_without_unicode(tiny, monkeypatch):
    """Catches a traceback where standard output cannot show what the model says, and JSON it would spoil."""
    whole = tiny("Hi", "--seed", 1).out
    assert not whole.isascii()
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert tiny("Hi", "--seed", 1).code == 0
    assert raw.getvalue() == whole.encode("ascii", "replace")
    raw.truncate(raw.seek(0))
    assert tiny("Hi", "--seed", 1, "--json").code == 0
    assert json.loads(raw.getvalue())["text"] + "\n" == whole
