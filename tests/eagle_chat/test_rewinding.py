"""Which round is looked at while more of them come."""

from eagle_chat.phases import Phase, Stage
from eagle_chat.rewinding import Rewinding
from tests.eagle_chat.examples import example_prefill, example_round


def test_it_follows_until_it_is_moved() -> None:
    """A view that jumps forward under the reader, or never comes back to the newest round."""
    rounds = [example_round(index) for index in range(4)]
    looked = Rewinding()
    assert looked.follow(rounds)
    assert looked.record is rounds[3]
    assert looked.newest is None
    assert looked.step(-2)
    rounds.append(example_round(4))
    assert not looked.follow(rounds)
    assert looked.record is rounds[1]
    assert looked.newest == 4
    assert not looked.step(-100) or looked.record is rounds[0]
    assert looked.release()
    assert looked.record is rounds[4]
    assert not looked.held


def test_the_last_step_forward_follows_again() -> None:
    """Stepping to the end that leaves the view held there while the reply goes on."""
    rounds = [example_round(index) for index in range(3)]
    looked = Rewinding()
    looked.follow(rounds)
    assert not looked.step(1)
    looked.step(-1)
    assert looked.held
    looked.step(10)
    assert not looked.held
    rounds.append(example_round(3))
    assert looked.newest is None  # not painted yet is not rewound
    assert looked.follow(rounds)


def test_another_reply_lets_go() -> None:
    """A new reply that runs unseen behind a round of the one before."""
    looked = Rewinding()
    looked.follow([example_round(index) for index in range(3)])
    looked.step(-1)
    after = [example_round(0)]
    looked.follow(after)
    assert looked.record is after[0]
    assert not looked.held


def test_holding_the_newest_is_no_rewinding_yet() -> None:
    """A heading that calls the newest round an old one; a hold that the next round breaks."""
    rounds = [example_round(index) for index in range(2)]
    looked = Rewinding()
    looked.follow(rounds)
    looked.hold()
    assert looked.newest is None
    rounds.append(example_round(2))
    looked.follow(rounds)
    assert looked.record is rounds[1]
    assert looked.newest == 2


def test_nothing_to_follow() -> None:
    """Keys pressed before the first reply, or over a round shown alone."""
    looked = Rewinding()
    assert not looked.following
    assert not looked.release()
    assert looked.record is None
    assert not looked.step(-1)
    assert not looked.held


def followed(count: int) -> tuple[Rewinding, list]:
    rounds = [example_prefill(), *(example_round(index) for index in range(1, count))]
    looked = Rewinding()
    looked.follow(rounds)
    return looked, rounds


def test_a_round_is_walked_from_its_first_phase() -> None:
    """A walk that skips the first phase, runs into the next round early, or is pulled on by a new round."""
    looked, rounds = followed(3)
    looked.step(-1)
    seen = []
    for _ in range(8):
        assert looked.step_phase(1)
        seen.append((looked.record.index, looked.phase.stage))
        rounds.append(example_round(len(rounds)))
        assert not looked.follow(rounds)
    assert seen == [
        *[(1, Stage.DRAFT)] * 3, (1, Stage.RERANK), (1, Stage.VERIFY), (1, Stage.ACCEPT), (1, Stage.OWN),
        (2, Stage.DRAFT),
    ]  # fmt: skip
    assert looked.step_phase(-1)
    assert (looked.record.index, looked.phase) == (1, Phase(Stage.OWN, 3))
    assert looked.step(1)
    assert (looked.record.index, looked.phase) == (2, None)


def test_back_into_the_prefill() -> None:
    """A step before the first round, or a phase counted in another round than the one it is of."""
    looked, _ = followed(2)
    assert [looked.step_phase(-1) for _ in range(8)] == [True] * 7 + [False]
    assert (looked.record.index, looked.phase) == (0, Phase(Stage.OWN))


def test_the_next_round_is_walked_when_it_comes() -> None:
    """Stepping beyond the newest round that shows its verdict at once, or never comes to it."""
    looked, rounds = followed(2)
    while looked.step_phase(1):
        pass
    assert not looked.is_in_newest
    looked.walk_on()
    assert not looked.follow(rounds)
    rounds += [example_round(2), example_round(3)]
    assert looked.follow(rounds)
    assert (looked.record.index, looked.phase) == (2, Phase(Stage.DRAFT, 1))
    assert looked.newest == 3
    assert not looked.is_in_newest
    assert looked.release()
    assert (looked.record.index, looked.phase) == (3, None)
    looked.step_phase(1)
    assert looked.is_in_newest


def test_jumps() -> None:
    """A place that is off by one, leaves the reply, or calls an ordinary round notable."""
    looked, rounds = followed(9)
    ms = [record.ms for record in rounds]
    for wanted, found in ((3, 3), (99, 8), (-2, 0)):
        looked.go_to(wanted)
        assert looked.record.index == found
    assert looked.held
    for after, found in ((0.0, 0), (ms[0] + 0.5 * ms[1], 1), (ms[0] + 1.5 * ms[1], 2), (1e9, 8)):
        looked.go_to_time(after)
        assert looked.record.index == found
    looked.go_to(0)
    rounds[:] = [example_prefill(), *(example_round(index, accepted=index % 4) for index in range(1, 9))]
    found = []
    while looked.notable(1):
        found.append(looked.record.index)
    assert found == [2, 3, 4, 6, 7, 8]
    assert looked.notable(-1)
    assert looked.record.index == 7
