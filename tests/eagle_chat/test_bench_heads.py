"""Which methods are measured with which heads: decided before the target is loaded, refused in a sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from eagle_chat import bench_heads, loading
from eagle_chat.bench_heads import METHODS, Chosen, choose, split_methods
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.methods import ALWAYS_THERE, CARDS, Needs
from eagle_chat.options import Options
from eagle_chat.weights import WeightsLocation
from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.evaluation_runs import report_of

pytestmark = pytest.mark.usefixtures("one_thread")


def chosen(model: Path, methods: str | None, *heads: object) -> Chosen:
    """What these words on the command line mean."""
    options = Options(str(model), "\n".join(map(str, heads)) or None)
    return choose(methods and split_methods(methods), options, lambda _: None)


def test_methods_of_one_kind_share_a_head(chat_model, chat_head):
    """Catches a head that is found for one of them only, or whose name is forgotten."""
    found = chosen(chat_model, "none,eagle,pld,eagle2", chat_head)
    assert found.names == ["none", "eagle", "pld", "eagle2"]
    assert {kind: head.name for kind, head in found.heads.items()} == {"eagle2": str(chat_head)}
    assert found.note is None


def test_heads_by_method(chat_model, chat_head):
    """Catches heads that are given to each other's methods, with or without the method's name."""
    for heads in (
        (f"draft-model={chat_model}", f"eagle={chat_head}"),
        (f"draft-model={chat_model}", chat_head),
        (chat_model, f"eagle2={chat_head}"),
    ):
        found = chosen(chat_model, "eagle2,draft-model", *heads)
        assert found.heads["eagle2"].folder == chat_head
        assert found.heads["draft-model"].folder == chat_model


def test_without_methods_the_heads_decide(chat_model, chat_head):
    """Catches a head that is named and not measured."""
    assert chosen(chat_model, None, chat_head).names == ["none", "eagle2+pld", "transformers"]
    two = chosen(chat_model, None, f"eagle={chat_head}", f"draft-model={chat_model}")
    assert two.names == ["none", "eagle2+pld", "draft-model", "transformers"]


def test_all_that_can_run(chat_model, chat_head):
    """Catches a method without a head that ends the run, or that is left out in silence."""
    found = chosen(chat_model, "all", chat_head)
    eagle2 = [method for method, card in CARDS.items() if card.needs is Needs.EAGLE2_HEAD]
    bare = [*ALWAYS_THERE, "transformers", "transformers-pld"]
    assert sorted(found.names) == sorted([*bare, *eagle2])
    assert {*found.names, *found.left_out} == set(METHODS)
    assert f"{found.left_out[-1]} are left out" in found.note
    assert chosen(chat_model, "all").names == bare


def test_what_is_left_out_is_said(bench, sky, chat_head):
    """Catches a note that is lost, or that spoils standard output."""
    ran = bench("--questions", sky, "--limit", 1, "--methods", "all", "--json")
    assert ran.err.startswith("eagle3, ")
    assert ran.err.endswith(" are left out: no head is known; --head METHOD=FOLDER names one.\n")
    assert {"none", "eagle2", "transformers"} < {row["method"] for row in json.loads(ran.out)["results"]}


def test_all_without_a_network(monkeypatch, chat_model):
    """Catches a catalogue's head that cannot be fetched and takes everything else with it."""

    def unreachable(name: str | None, *about: object) -> WeightsLocation | None:
        raise EagleChatError("the hub gave nothing")

    monkeypatch.setattr(bench_heads, "find_head", unreachable)
    assert "eagle2" in chosen(chat_model, "all").left_out
    with pytest.raises(EagleChatError, match="the hub gave nothing"):
        chosen(chat_model, "eagle2")


def test_a_folder_with_an_equals_sign(chat_model, chat_head, tmp_path):
    """Catches a folder that is taken for a method and its head."""
    folder = shutil.copytree(chat_head, tmp_path / "steps=3")
    for head in (folder, f"eagle2={folder}"):
        assert chosen(chat_model, "eagle2", head).heads["eagle2"].folder == folder


def test_a_published_head_of_another_model(monkeypatch):
    """Catches gigabytes of a head that is downloaded for a target which it cannot fit."""
    monkeypatch.setattr(bench_heads, "find_head", lambda *about: pytest.fail("was looked for"))
    for head in ("vicuna-7b", "eagle2=yuhuili/EAGLE-Vicuna-7B-v1.3"):
        with pytest.raises(UsageError, match="vicuna-7b, whose hidden states are 4096 wide"):
            chosen(Path("smollm2-135m"), "eagle2", head)


@pytest.mark.parametrize(
    ("methods", "heads", "said"),
    [
        ("eagle3", ("eagle3={head}",), "is a head for --method eagle2, not for eagle3"),
        (
            "eagle,none",
            (),
            "no eagle2 head is known for .*, so eagle cannot be measured.*--head eagle2=FOLDER",
        ),
        ("draft-model", (), "no small model is known .* --head draft-model=FOLDER"),
        ("eagle2", ("eagle2={head}", "eagle={head}"), "names two heads for eagle2"),
        ("eagle2", ("{head}", "{head}"), "say for which method"),
        ("all", ("eagle2={head}", "{head}"), "has no use: none of .* wants one more head"),
        ("eagle2,draft-model", ("{head}",), "could be for eagle2 or draft-model: say which"),
        ("eagle2", ("{head}", "draft-model={head}"), "draft-model is not among --methods"),
        ("pld", ("{head}",), "has no use: none of pld wants a head"),
        ("eagle2", ("pld={head}",), "'pld' drafts with no head; these do: eagle2, "),
        ("eagle2", ("eagle2=./nowhere",), "There is no folder ./nowhere"),
        ("pld,medusae", (), "knows no 'medusae': choose from all, none"),
    ],
)
def test_what_is_refused(chat_model, chat_head, methods, heads, said):
    """Catches a mistake that is guessed about, or found out with a traceback."""
    with pytest.raises(UsageError, match=said):
        chosen(chat_model, methods, *(head.format(head=chat_head) for head in heads))


def test_a_missing_head_costs_no_loading(bench, command, sky, chat_model, monkeypatch):
    """Catches a large model that is loaded before it is clear that its head is not there."""
    monkeypatch.setattr(loading, "load_session", lambda *about, **how: pytest.fail("was loaded"))
    ran = command("bench", "--model", chat_model, "--questions", sky, "--methods", "none,eagle2+pld")
    assert_refused(ran, "eagle2+pld cannot be measured")
    assert_refused(bench("--questions", sky, "--methods", "eagle3,none"), "not for eagle3")


def halves(rows: list[dict]) -> tuple[list[dict], list[dict]]:
    """Those at temperature 0, and the others."""
    return [row for row in rows if not row["temperature"]], [row for row in rows if row["temperature"]]


def test_all_in_one_process(bench, sky, chat_model):
    """Catches drafters that disturb each other through the head they share, or size no tree by its cost."""
    names = "eagle,none,eagle2+pld,draft-model,eagle2,pld,lookahead,eagle2-bare,draft-model-sampled"
    way = ("--questions", sky, "--methods", names, "--head", f"draft-model={chat_model}", "--repeats", 2)
    way = (*way, "--temperatures", "0,1")
    report = report_of(bench(*way, "--json"))
    rows, sampled = ({row["method"]: row for row in half} for half in halves(report["results"]))
    assert list(rows) == names.split(",") == report["settings"]["methods"]
    assert all(row["identical"] for row in rows.values())
    assert {name for name, row in sampled.items() if not row["identical"]} == {"draft-model-sampled"}
    assert sampled["draft-model-sampled"]["identical"] is None
    assert len({rows[name]["tau"] for name in ("none", "eagle2", "eagle", "draft-model", "pld")}) == 5
    settings = report["settings"]
    assert {kind: head["name"] for kind, head in settings["heads"].items()} == {
        "eagle2": "tiny-head",
        "draft-model": "tiny",
    }
    assert settings["sized"]
