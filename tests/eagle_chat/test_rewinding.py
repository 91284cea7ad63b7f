"""Which round is looked at while more of them come."""

from eagle_chat.rewinding import Rewinding
from tests.eagle_chat.examples import example_round


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
