"""Two recorded runs: what is said while they run, and the verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eagle_chat.comparison import Difference
from eagle_chat.racing import Race
from eagle_chat.recorded import load_recording
from eagle_chat.replaying import Player, Replay
from tests.eagle_chat.fake_session import SKY
from tests.eagle_chat.recordings import cut, recording, replay_of, write_recording


@pytest.fixture
def runs(tmp_path: Path) -> list[Replay]:
    """The same text, drafted and plain."""
    return [replay_of(tmp_path / "a.jsonl"), replay_of(tmp_path / "b.jsonl", method="none")]


def lines(runs: list[Replay]) -> list[str]:
    """What is said at every place, from the start to the end."""
    player, race = Player(runs, playing=False), Race(runs, ["a", "b"])
    said = []
    while True:
        said.append(race.line([player.frame(0), player.frame(1)]))
        if player.over:
            return said
        player.step(1)


def test_who_is_ahead(runs):
    """Catches a lead that is counted in rounds, or given to the wrong run."""
    said = lines(runs)
    assert said[0] == "level · same text so far ✓ 0 tokens"
    assert said[-2].startswith("eagle2 is 1 token ahead · same text so far ✓ 41 tokens")
    player, race = Player(runs, playing=False), Race(runs, ["a", "b"])
    while not player.over:
        drafted, plain = (player.frame(run).statistics.new_tokens for run in (0, 1))
        lead = race.line([player.frame(0), player.frame(1)]).partition(" · ")[0]
        name = "eagle2" if drafted > plain else "plain"
        ahead = abs(drafted - plain)
        assert lead == (f"{name} is {ahead} token{'s' * (ahead > 1)} ahead" if ahead else "level")
        player.step(1)


def test_the_verdict_is_the_same_in_either_order(runs):
    """Catches plain decoding being called the faster one because its file was named first."""
    expected = "×1.36 against plain decoding · same text ✓ 42 tokens"
    assert lines(runs)[-1] == expected
    assert Race(runs[::-1], ["b", "a"]).verdict() == expected


def test_texts_that_differ(tmp_path, runs):
    """Catches a race that says 'same' without looking at the tokens, or too late."""
    other = replay_of(tmp_path / "c.jsonl", SKY.replace("Rayleigh", "another"), method="none")
    said = lines([runs[0], other])
    assert "text differs from token 10 on" in said[-1]
    assert any("same text so far ✓ 9 tokens" in line for line in said)
    assert not any("same text so far ✓ 10 tokens" in line for line in said)
    assert any("texts differ from token 10 on" in line for line in said)


def test_two_drafting_runs(tmp_path, runs):
    """Catches 'against plain decoding' where neither run is."""
    again = replay_of(tmp_path / "c.jsonl")
    assert Race([runs[0], again], ["a.jsonl", "c.jsonl"]).verdict() == (
        "×1.00, a.jsonl against c.jsonl · same text ✓ 42 tokens"
    )


def test_what_cannot_be_compared(tmp_path, runs):
    """Catches texts of different questions, models or draws being called different answers."""
    trace = recording(tmp_path / "c.jsonl", "Something else.", method="none")
    info = trace.info
    for other, said in (
        (replace(trace, header={**trace.header, "prompt": "Who?"}), "different prompts"),
        (replace(trace, info=replace(info, weights_sha256="1" * 64)), "different models"),
        (replace(trace, info=replace(info, temperature=1.0)), "different seeds or temperatures"),
    ):
        for order in ([runs[0], Replay(other)], [Replay(other), runs[0]]):
            verdict = Race(order, ["a", "b"]).verdict()
            assert verdict.startswith("×1.36, eagle2 against plain · ")
            assert said in verdict
            assert "text" not in lines(order)[2]


def test_no_verdict_on_half_a_run(tmp_path, runs):
    """Catches a crash, or a verdict, where one recording was cut off."""
    half = replay_at(cut(write_recording(tmp_path / "c.jsonl", method="none"), 9))
    assert lines([runs[0], half])[-1] == "no verdict: the recording of plain was cut off"


def test_the_result_card_says_what_was_run(tmp_path, runs):
    """Catches a card that lacks a fact, shows a path, or is made of half a run."""
    assert Race(runs, ["a", "b"], machine="A chip, 2 cores").card().splitlines()[1:] == [
        "prompt   Why is the sky blue?",
        "eagle2   42 tokens · τ 1.95 · 73.7 tok/s",
        "plain    42 tokens · τ 1.00 · 54.1 tok/s",
        "result   ×1.36 against plain decoding · same text ✓ 42 tokens",
        "model    smollm2-135m · fp32 · T=0 · seed 7",
        "machine  A chip, 2 cores · cpu",
    ]
    trace = runs[0].trace
    here = Replay(replace(trace, info=replace(trace.info, model=str(tmp_path), head=str(tmp_path))))
    assert str(tmp_path.parent) not in Race([here, runs[1]], ["a", "b"]).card()
    half = cut(write_recording(tmp_path / "c.jsonl", method="none"), 9)
    assert Race([runs[0], replay_at(half)], ["a", "c"]).card() is None


def test_a_measured_difference_is_explained(tmp_path, runs):
    """Catches a near tie that is reported as a bug."""
    other = replay_of(tmp_path / "c.jsonl", SKY.replace("Rayleigh", "another"), method="none")
    measured = Difference(9, 1, 2, fp32_gap=0.016, near_tie=True)
    verdict = Race([runs[0], other], ["a", "b"], measured=measured).verdict()
    assert verdict.endswith("same text for 9 tokens, then a near tie in half precision (fp32 gap 0.016)")


def replay_at(path: Path) -> Replay:
    return Replay(load_recording(path))
