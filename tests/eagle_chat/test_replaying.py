"""Any moment of a trace, and the player that moves between moments. No screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eagle_chat.events import RoundDone
from eagle_chat.phases import Phase, Stage
from eagle_chat.recorded import load_recording
from eagle_chat.records import RoundRecord
from eagle_chat.replaying import CHECKPOINT, SPEEDS, Frame, Player, Replay, UnderWay
from eagle_chat.statistics import ReplyStatistics
from eagle_chat.trace import Marker
from tests.eagle_chat.examples import example_plain
from tests.eagle_chat.fake_session import ROUND_MS, SKY
from tests.eagle_chat.recordings import cut, recording, replay_of, write_recording

DRAFTED = Path(__file__).parents[2] / "screenshots" / "traces" / "drafted.jsonl"
ROUND = sum(ROUND_MS["eagle2"])
PREFILL = 182.0


@pytest.fixture
def sky(tmp_path: Path) -> Replay:
    return replay_of(tmp_path / "sky.jsonl")


def shown(frame: Frame) -> tuple[object, ...]:
    """All that a screen can show of a frame."""
    figures = {name: getattr(frame.statistics, name) for name in vars(ReplyStatistics())}
    return (frame.done, frame.text, frame.fresh, frame.record, figures, frame.notable, frame.over)


def test_a_frame_depends_on_nothing_but_its_place(sky):
    """Catches state that is carried from frame to frame: after going back, text or figures would differ."""
    forward = [shown(sky.frame(done)) for done in range(sky.rounds + 1)]
    backward = [shown(sky.frame(done)) for done in range(sky.rounds, -1, -1)]
    assert forward == backward[::-1]


def test_frames_grow_by_what_each_round_wrote(sky):
    """Catches a text that is a round ahead of the tree beside it, or behind."""
    assert (sky.frame(0).text, sky.frame(0).record) == ("", None)
    for done, round_done in enumerate(sky.trace.rounds, start=1):
        frame = sky.frame(done)
        assert frame.record is round_done.record
        assert frame.text == "".join(each.text for each in sky.trace.rounds[:done])
        assert frame.text[len(frame.text) - frame.fresh :] == round_done.text
        assert frame.over == (done == sky.rounds)
    assert sky.frame(sky.rounds).text == SKY


@pytest.mark.parametrize("done", [-1, 1000])
def test_a_frame_outside_the_trace(sky, done):
    """Catches a negative place that quietly counts from the end."""
    with pytest.raises(IndexError):
        sky.frame(done)


def test_figures_of_a_late_round(tmp_path):
    """Catches checkpoints that count a round twice, or change when a frame after them is made."""
    trace = recording(tmp_path / "a.jsonl")
    prefill = trace.rounds[0]
    many = [RoundDone(example_plain(index), " so") for index in range(1, 3 * CHECKPOINT)]
    replay = Replay(replace(trace, rounds=[prefill, *many], summary=None))
    for done in (CHECKPOINT - 1, CHECKPOINT, CHECKPOINT + 1, 2 * CHECKPOINT, 3 * CHECKPOINT, CHECKPOINT):
        expected = ReplyStatistics()
        for each in [prefill, *many][:done]:
            expected.add(each.record)
        assert vars(replay.frame(done).statistics) == vars(expected)


def test_the_end_has_the_text_of_the_summary(tmp_path):
    """Catches the last, incomplete character being lost: only the summary's text has its replacement."""
    trace = recording(tmp_path / "a.jsonl")
    assert trace.summary is not None
    replay = Replay(replace(trace, summary={**trace.summary, "text": SKY + "�"}))
    assert replay.frame(replay.rounds).text == SKY + "�"
    assert replay.frame(replay.rounds - 1).text in SKY


def test_the_recorded_pace(sky):
    """Catches a replay that plays rounds at an even pace, or counts painting into the time."""
    player = Player([sky])
    player.advance(PREFILL / 1000 - 0.001)
    assert player.frame().done == 0
    player.advance(0.002)
    assert player.frame().done == 1
    player.advance(2.5 * ROUND / 1000)
    assert player.frame().done == 3
    player.advance(1e6)
    assert player.over
    assert not player.playing
    assert player.ms == pytest.approx(sky.ms)


@pytest.mark.parametrize("speed", SPEEDS)
def test_speeds(sky, speed):
    """Catches a factor that is applied the wrong way round."""
    player = Player([sky], speed=speed)
    player.advance(0.1)
    assert player.ms == pytest.approx(100 * speed)


def test_speed_stays_in_its_range(sky):
    """Catches a key that runs off the list of speeds, or starts again at its other end."""
    player = Player([sky])
    assert [player.speed, *(player.change_speed(1) or player.speed for _ in range(3))] == [1, 2, 4, 4]
    assert [player.change_speed(-1) or player.speed for _ in range(6)] == [2, 1, 0.5, 0.25, 0.1, 0.1]


def test_jumps_pause_at_the_end_of_a_round(sky):
    """Catches a step from the middle of a round that stays where it was, and play that runs away under it."""
    player = Player([sky])
    player.advance((PREFILL + 3.6 * ROUND) / 1000)
    assert player.frame().done == 4
    player.step(-1)
    assert (player.frame().done, player.playing) == (3, False)
    assert player.ms == pytest.approx(PREFILL + 2 * ROUND)
    player.advance(10)
    assert player.frame().done == 3
    player.step(1)
    assert player.frame().done == 4
    player.step(-100)
    assert (player.frame().done, player.ms) == (0, 0.0)
    player.step(1000)
    assert player.over


def test_first_last_round_and_time(sky):
    """Catches a jump that is off by one, or leaves the trace."""
    player = Player([sky])
    player.last()
    assert (player.frame().done, player.playing) == (sky.rounds, False)
    player.first()
    assert player.frame().done == 0
    for number, done in ((0, 1), (5, 6), (10**9, sky.rounds), (-3, 1)):
        player.go_to_round(number)
        frame = player.frame()
        assert frame.done == done
        assert frame.record is not None
        assert frame.record.index == done - 1
    player.go_to_time(PREFILL + 1.5 * ROUND)
    assert player.frame().done == 2
    player.go_to_time(1e9)
    assert player.over
    player.go_to_time(-1)
    assert player.frame().done == 0


def test_playing_on_and_once_more(sky):
    """Catches play at the end that does nothing, and pause that loses the place."""
    player = Player([sky], playing=False)
    player.step(5)
    player.toggle()
    player.advance(0.001)
    assert player.frame().done == 5
    player.toggle()
    player.advance(9)
    assert player.frame().done == 5
    player.last()
    player.toggle()
    assert (player.frame().done, player.playing) == (0, True)


def test_rounds_that_took_no_time(tmp_path):
    """Catches a place that is only a time: rounds with the same time could not be told apart."""
    trace = recording(tmp_path / "a.jsonl")

    def timeless(record: RoundRecord) -> RoundRecord:
        return replace(record, draft_ms=0.0, verify_ms=0.0, other_ms=0.0)

    rounds = [replace(each, record=timeless(each.record)) for each in trace.rounds]
    player = Player([Replay(replace(trace, rounds=rounds))], playing=False)
    for done in range(1, len(rounds) + 1):
        player.step(1)
        assert player.frame().done == done
    player.step(-1)
    assert player.frame().done == len(rounds) - 1
    player.toggle()
    player.advance(0.1)
    assert player.over


def test_notable_rounds_are_found_both_ways():
    """Catches a search that finds the round one is at, or goes on beyond the end."""
    sky = Replay(load_recording(DRAFTED))
    wanted = [done for done in range(1, sky.rounds + 1) if sky.notable[done - 1]]
    assert wanted
    player, found = Player([sky]), []
    while len(found) <= len(wanted) and player.notable(1):
        found.append(player.frame().done)
        assert player.frame().notable
    assert found == wanted
    back = []
    while len(back) <= len(wanted) and player.notable(-1):
        back.append(player.frame().done)
    assert back == wanted[-2::-1]


def test_slow_motion_has_the_tree_before_its_verdict(sky):
    """Catches trees that flicker at full speed, or appear before they were drafted."""
    slow, fast = Player([sky], speed=0.1), Player([sky])
    for number in (1, 2, 3):
        began = PREFILL + (number - 1) * ROUND
        for share, shown in ((0.01, False), (0.49, False), (0.51, True), (0.99, True)):
            for player in (slow, fast):
                player.go_to_time(began + share * ROUND)
                assert player.frame().done == number
            assert (slow.under_way() is not None) == shown
            assert fast.under_way() is None
        assert slow.under_way() == UnderWay(sky.trace.rounds[number].record, Phase(Stage.RERANK, 3))
    slow.go_to_round(2)
    assert slow.under_way() is None
    slow.go_to_time(0.9 * PREFILL)
    assert slow.under_way() is None
    slow.last()
    assert slow.under_way() is None


def test_slow_motion_drafts_in_its_own_time(sky):
    """Catches levels that appear all at once, or take the time of the target."""
    draft = ROUND_MS["eagle2"][0] / ROUND
    player, seen = Player([sky], speed=0.1), []
    for share in (0.01, 0.3, 0.6, 0.9, 1.1, 3.0):
        player.go_to_time(PREFILL + (0.5 + share * draft / 2) * ROUND)
        way = player.under_way()
        seen.append(None if way is None else way.phase)
    levels = [Phase(Stage.DRAFT, level) for level in (1, 2, 3)]
    assert seen == [*levels, *[Phase(Stage.RERANK, 3)] * 3]


def test_phases_of_recorded_rounds(sky):
    """Catches a walk that skips a phase or a round, moves the text early, or goes back another way."""
    player = Player([sky], playing=True)
    forward = []
    for _ in range(20):
        player.step_phase(1)
        forward.append((player.frame().done, player.under_way()))
    assert not player.playing
    assert forward[0] == (1, UnderWay(sky.trace.rounds[0].record, Phase(Stage.OWN)))
    assert [done for done, _ in forward] == [1, *[1] * 6, 2, *[2] * 6, 3, *[3] * 5]
    assert all(way is not None for _, way in forward)
    back = [(player.frame().done, player.under_way())]
    for _ in range(19):
        player.step_phase(-1)
        back.append((player.frame().done, player.under_way()))
    assert back == forward[::-1]
    player.step_phase(-1)
    assert (player.frame().done, player.under_way()) == (0, None)


def test_the_walk_goes_on_from_slow_motion(sky):
    """Catches a key pressed in the middle of a drafted round that jumps back to the round before."""
    player = Player([sky], speed=0.1)
    player.go_to_time(PREFILL + 0.9 * ROUND)
    assert player.under_way() == UnderWay(sky.trace.rounds[1].record, Phase(Stage.RERANK, 3))
    player.step_phase(1)
    assert player.under_way() == UnderWay(sky.trace.rounds[1].record, Phase(Stage.VERIFY, 3))
    assert player.frame().done == 1


def test_the_walk_ends_with_the_recording(sky):
    """Catches a step beyond the last phase that starts again or raises; time that goes on in a phase."""
    player = Player([sky])
    player.last()
    for _ in range(20):
        player.step_phase(1)
    assert player.under_way().phase == Phase(Stage.OWN, 3)
    player.step_phase(-1)
    assert player.under_way().phase.stage == Stage.ACCEPT
    player.step(0)
    assert player.under_way() is None


def test_two_runs_are_walked_one_at_a_time(tmp_path):
    """Catches a phase that is shown in the run whose round it is not."""
    player = Player([replay_of(tmp_path / "a.jsonl"), replay_of(tmp_path / "b.jsonl", method="none")])
    player.go_to_round(3)
    before = player.frame(1).text
    player.step_phase(1)
    assert player.under_way(0).phase == Phase(Stage.DRAFT, 1)
    assert player.under_way(1) is None
    assert (player.frame(0).done, player.frame(1).text) == (3, before)


def test_markers_stop_the_clock(tmp_path):
    """Catches a lesson that runs over its words, or stops where nobody asked for it."""
    trace = recording(tmp_path / "a.jsonl")
    marked = Replay(replace(trace, markers=(Marker(1, "One."), Marker(4, "Two."), Marker(4, "Three."))))
    stops, player = [], Player([marked], pause_on_markers=True)
    while not player.over:
        player.playing = True
        player.advance(100)
        stops.append((player.frame().done, player.lesson))
    assert stops == [(2, "One."), (5, "Two.\nThree."), (marked.rounds, "")]
    player = Player([marked])
    player.advance(100)
    assert player.over
    player.first()
    assert [player.marker(1) and player.frame().done for _ in range(3)] == [2, 5, False]
    assert player.marker(-1)
    assert player.frame().done == 2


def test_two_runs_on_one_clock(tmp_path):
    """Catches a race in which one run waits for the other, or both share one pace."""
    drafted = replay_of(tmp_path / "a.jsonl")
    plain = replay_of(tmp_path / "b.jsonl", method="none")
    player = Player([drafted, plain])
    player.advance((PREFILL + 5 * ROUND + 0.1) / 1000)
    assert player.frame(0).done == 6
    assert player.frame(1).done == 1 + int((5 * ROUND + 0.1) // sum(ROUND_MS["none"]))
    player.advance(100)
    assert player.frame(0).over
    assert player.frame(1).over
    assert player.total_ms == max(drafted.ms, plain.ms)
    player.step(-1)
    assert (player.frame(0).over, player.frame(1).done) == (True, plain.rounds - 1)
    player.go_to_round(5)
    assert player.frame(0).done == 6


def test_a_recording_without_an_end(tmp_path):
    """Catches a cut recording that is shown as a whole one."""
    whole = replay_of(tmp_path / "a.jsonl")
    path = cut(write_recording(tmp_path / "b.jsonl"), 8, b'{"round":{"index":6,"ne')
    replay = Replay(load_recording(path))
    assert replay.rounds == 6
    assert replay.frame(6).text == whole.frame(6).text
    assert "the recording was cut off" in replay.last_line()
    assert "tok/s" in replay.last_line()
    assert "cut off" not in whole.last_line()
