"""`eagle-chat study`: every figure with the tiny model, against the rounds it is made of."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eagle_chat.errors import EXIT_DONE, EXIT_INTERRUPTED
from eagle_chat.evaluation import Calibration
from eagle_chat.events import Event, RoundDone
from eagle_chat.records import RoundRecord
from eagle_chat.session import ChatSession
from eagle_chat.study import run
from tests.eagle_chat.conftest import Ran, assert_refused
from tests.eagle_chat.evaluation_runs import report_of, write_questions

pytestmark = pytest.mark.usefixtures("one_thread")

Study = Callable[..., Ran]
SETTINGS = {
    "model", "head", "method", "weights_sha256", "dtype", "device", "seed", "temperature", "nodes", "depth",
    "beam", "max_new_tokens", "questions", "interrupted",
}  # fmt: skip


@pytest.fixture
def study(command: Callable[..., Ran], chat_model: Path, chat_head: Path) -> Study:
    """The command with the tiny model, in fp32."""
    options = ("--model", chat_model, "--head", chat_head, "--dtype", "fp32", "--max-new-tokens", "12")

    def run_it(what: str, *args: object) -> Ran:
        return command("study", what, *options, *args)

    return run_it


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Two questions, one of two turns."""
    return write_questions(tmp_path / "talk.jsonl", ["Write a poem.", "Again, but shorter."], ["Hm?"])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[RoundRecord]]:
    """The rounds of every contender, by the type of its drafter, and what was left out of it or added."""
    found: dict[str, list[RoundRecord]] = {}
    ask = ChatSession.ask

    def watched(self: ChatSession, prompt: str, **how) -> Iterator[Event]:
        drafter = self.engine.drafters[self.info.method]
        parts = [getattr(drafter, part, None) for part in ("ablation", "calibration")]
        key = f"{type(drafter).__name__} {parts}"
        for event in ask(self, prompt, **how):
            if isinstance(event, RoundDone):
                found.setdefault(key, []).append(event.record)
            yield event

    monkeypatch.setattr(ChatSession, "ask", watched)
    return found


def test_calibration(study: Study, sky: Path, asked: dict[str, list[RoundRecord]]) -> None:
    """Catches bins that are not those of the drafter, and a head alone that was corrected after all."""
    report = report_of(study("calibration", "--questions", sky, "--json"))
    assert report.keys() == {"study", "raw", "calibrated", "settings"}
    assert report["settings"].keys() == SETTINGS
    assert ["Calibration" in key for key in asked] == [False, True]
    for one, records in zip((report["raw"], report["calibrated"]), asked.values(), strict=True):
        counts = Calibration()
        for record in records:
            counts.add(record)
        assert one["bins"] == counts.as_json()
        assert sum(place["count"] for place in one["bins"]) == one["tested"] > 50
    assert report["calibrated"]["error"] < report["raw"]["error"]  # the tiny head is far too modest


def test_positions(study: Study, sky: Path, talk: Path, asked: dict[str, list[RoundRecord]]) -> None:
    """Catches a node counted at another position, or where nobody asked about it."""
    report = report_of(study("positions", "--questions", sky, talk, "--json"))
    positions = {tuple(one["path"]): one for one in report["positions"]}
    assert len(positions) == 25
    (records,) = asked.values()
    rounds = [record for record in records if record.index > 0]
    assert positions[1,]["tested"] == sum(len(record.tree.tokens) > 1 for record in rounds)
    firsts = sum(record.path[1:2] == (1,) for record in rounds)
    assert positions[1,]["accepted_share"] == pytest.approx(firsts / positions[1,]["tested"])
    accepted = sum(one["tested"] * (one["accepted_share"] or 0) for one in positions.values())
    assert accepted == pytest.approx(sum(record.accepted for record in rounds))
    by_task = positions[1,]["tasks"]
    assert by_task.keys() == {"sky", "talk"}
    assert sum(one["tested"] for one in by_task.values()) == positions[1,]["tested"]
    low, middle, high = positions[1,]["quartiles"]
    assert 0 <= low <= middle <= high <= 1


def test_ablation(study: Study, sky: Path, talk: Path, asked: dict[str, list[RoundRecord]]) -> None:
    """Catches variants that are mixed up or compared over other questions."""
    report = report_of(
        study("ablation", "--questions", sky, talk, "--limit", 2, "--json", "--nodes", 9, "--beam", 4)
    )
    variants = report["variants"]
    assert list(variants) == ["eagle2", "no-value", "no-rerank", "neither", "eagle"]
    assert (report["paired_questions"], report["parted_questions"]) == (4, 0)
    assert len({one["tokens"] for one in variants.values()}) == 1  # the same text
    drafted = {key: [record for record in found if record.index] for key, found in asked.items()}
    assert [one["rounds"] for one in variants.values()] == [len(found) for found in drafted.values()]
    kinds = [(key.split()[0], "value=False" in key, "rerank=False" in key) for key in drafted]
    assert kinds == [
        ("Eagle2", False, False), ("Eagle2", True, False), ("Eagle2", False, True), ("Eagle2", True, True),
        ("Eagle", False, False),
    ]  # fmt: skip
    assert all(max(len(record.tree.tokens) for record in found) == 10 for found in drafted.values())
    full = variants["eagle2"]
    assert full["difference"] is None
    assert full["tau"] == pytest.approx(sum(full["tasks"].values()) / 2)
    worse = variants["no-value"]
    low, high = worse["interval"]
    assert worse["difference"] == pytest.approx(worse["tau"] - full["tau"])
    assert low <= worse["difference"] <= high < 0  # without the value the tiny model's trees are worse


def test_ablation_of_one_question_has_no_interval(study: Study, sky: Path) -> None:
    """Catches certainty that one question cannot give."""
    ran = study("ablation", "--questions", sky, "--limit", 1)
    assert (ran.code, ran.err) == (EXIT_DONE, "")
    assert "1 question answered by all" in ran.out
    assert "That is few" in ran.out
    row = next(line for line in ran.out.splitlines() if line.startswith("│ no-value"))
    assert " – " in row


def test_size(study: Study, sky: Path) -> None:
    """Catches sizes that were not what is said, and speeds of nothing."""
    report = report_of(study("size", "--questions", sky, "--limit", 1, "--json"))
    sizes = {(one["nodes"], one["depth"], one["beam"]): one for one in report["sizes"]}
    assert {(2, 3, 4), (8, 3, 4), (32, 3, 4), (4, 1, 4), (8, 5, 4), (3, 3, 1)} <= set(sizes)
    assert sizes[32, 3, 4]["tau"] >= sizes[2, 3, 4]["tau"]
    assert report["plain"]["tau"] == report["plain"]["vs_plain"] == 1.0
    for one in sizes.values():
        assert min(one["tokens_per_second"], one["modelled"], one["vs_plain"]) > 0
    assert report["axes"].keys() == {"nodes", "depth", "beam"}


def test_vocabulary(study: Study, sky: Path, asked: dict[str, list[RoundRecord]]) -> None:
    """Catches a vocabulary of another size or order, and shares that fall as it grows."""
    report = report_of(study("vocabulary", "--questions", sky, "--limit", 2, "--json"))
    sizes = report["sizes"]
    assert [one["size"] for one in sizes][-1] == report["target_vocabulary"]
    for key in ("tokens_covered", "probability_covered"):
        shares = [one[key] for one in sizes]
        assert shares == sorted(shares)
        assert 0 <= shares[0] < 0.7
        assert shares[-1] == pytest.approx(1)
    rounds = [record for key in asked if key.startswith("Witness") for record in asked[key] if record.index]
    assert sizes[-1]["tau"] == sum(len(record.new) for record in rounds) / len(rounds)
    assert sizes[0]["tau"] < sizes[-1]["tau"]
    assert sizes[0]["rounds"] > sizes[-1]["rounds"]


@pytest.mark.parametrize("as_json", [True, False])
def test_interrupt_shows_what_was_measured(
    study: Study, sky: Path, talk: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    """Catches Ctrl+C that throws an hour of measuring away, or is reported as success."""
    ask, prompts = ChatSession.ask, []

    def interrupted(self: ChatSession, prompt: str, **how) -> Iterator[Event]:
        prompts.append(prompt)
        if len(prompts) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        yield from ask(self, prompt, **how)

    monkeypatch.setattr(ChatSession, "ask", interrupted)
    ran = study("positions", "--questions", sky, talk, *(["--json"] if as_json else []))
    assert ran.code == EXIT_INTERRUPTED
    assert ran.err == ""
    if as_json:
        report = json.loads(ran.out)
        assert report["settings"]["interrupted"]
        tasks = report["positions"][0]["tasks"]
        assert [task for task, one in tasks.items() if one["tested"]] == ["sky", "talk"]  # in turns
    else:
        assert "interrupted" in ran.out.splitlines()[-1]
        assert "2 questions" in ran.out


def test_svg_and_ascii(study: Study, sky: Path, tmp_path: Path) -> None:
    """Catches a figure that is not written, and characters that an old terminal lacks."""
    file = tmp_path / "figure.svg"
    ran = study("calibration", sky, "--limit", 1, "--ascii", "--svg", file)
    assert (ran.code, ran.err) == (EXIT_DONE, "")
    assert ran.out.isascii()
    assert "calibration: " in file.read_text()
    assert file.read_text().startswith("<svg")


def test_questions_that_come_with_the_project(
    study: Study, sky: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a default that is not used, and one that is not there."""
    monkeypatch.setattr(run, "PACKAGED", tmp_path / "none")
    assert_refused(study("positions"), "name a file with --questions")
    (tmp_path / "none").mkdir()
    sky.rename(tmp_path / "none" / "sky.jsonl")
    report = report_of(study("positions", "--limit", 1, "--json"))
    assert report["settings"]["questions"] == {"sky": 1}


def test_what_cannot_be(
    study: Study, command: Callable[..., Ran], chat_model: Path, sky: Path, tmp_path: Path
) -> None:
    """Catches a traceback, or a complaint after an hour of measuring."""
    assert_refused(study("positions", sky, "--depth", 3), "--depth has no use with positions")
    assert_refused(study("ablation", sky, "--nodes", 900), "nodes 900 is more than")
    missing = tmp_path / "missing" / "figure.svg"
    assert_refused(study("size", sky, "--svg", missing), str(missing), "--svg")
    assert_refused(command("study", "size", sky, "--method", "pld"), "no draft head to study")
    assert_refused(command("study", "size", sky, "--model", chat_model), "no draft head is known", "--head")
    assert command("study", "speed", sky).code == 2
