"""Which rounds of a trace are worth a stop."""

from dataclasses import replace

from eagle_chat.notable import why_notable
from eagle_chat.records import RoundRecord, SizingRecord, TreeRecord
from tests.eagle_chat.examples import example_plain, example_prefill, example_round, verdict


def sized(why: str) -> RoundRecord:
    """A round of plain decoding, and why it is one."""
    record = example_plain()
    return replace(record, tree=replace(record.tree, sizing=SizingRecord(1.0, 20.0, 20.0, why)))


def chain(*confidences: float, accepted: int) -> RoundRecord:
    """A drafted chain of which so much was accepted."""
    from math import log

    values = [0.0]
    for confidence in confidences:
        values.append(values[-1] + log(confidence))
    nodes = len(values)
    texts = tuple(f" w{node}".encode() for node in range(nodes))
    tree = TreeRecord(tuple(range(nodes)), texts, tuple(range(-1, nodes - 1)), tuple(values))
    return verdict(3, tree, tuple(range(accepted + 1)), b" own", 0.4)


def test_a_tree_accepted_to_the_bottom():
    """Catches shallow trees being praised, and deep ones being missed."""
    assert why_notable(chain(0.9, 0.8, 0.7, accepted=3)) == (
        "all 3 levels accepted: 4 tokens for one forward pass"
    )
    assert why_notable(chain(0.9, 0.8, 0.7, accepted=2)) is None
    assert why_notable(chain(0.9, 0.8, accepted=2)) is None


def test_a_path_off_the_first_choices():
    """Catches a wrong rank or depth, and paths that follow the drafter."""
    said = why_notable(example_round(accepted=2))
    assert said == "the model took the drafter's no. 2, ‘the’, at depth 2: a chain ends there"
    assert why_notable(example_round(accepted=1)) is None


def test_a_miss_of_a_sure_drafter():
    """Catches every rejection being called a miss: it is one where the drafter was sure."""
    said = why_notable(chain(0.8, 0.9, accepted=0))
    assert said == "a miss: the drafter was 80 % sure of ‘w1’, the model says ‘own’"
    assert why_notable(chain(0.4, 0.9, accepted=0)) is None
    unknown = chain(0.8, accepted=0)
    assert why_notable(replace(unknown, tree=replace(unknown.tree, values=None))) is None
    assert why_notable(replace(unknown, bonus=None, new=(), texts=())) is None


def test_drafting_that_begins_to_rest():
    """Catches every round of a rest being notable, and plain decoding that never drafted."""
    assert why_notable(sized("rest"), example_round()) == (
        "drafting rests from here on: it was slower than plain decoding"
    )
    assert why_notable(sized("rest"), sized("rest")) is None
    assert why_notable(sized("rest"), sized("probe")) is None
    assert why_notable(sized("probe"), example_round()) is None
    assert why_notable(example_plain(), example_plain()) is None
    assert why_notable(example_prefill()) is None
