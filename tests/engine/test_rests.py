"""Drafting that does not pay rests, is tried again, and misses nothing in between."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine import Costs, DraftTree, Eagle2, Sizing, TreeSizing
from tests.engine.markov import TableHead, observe
from tests.engine.test_eagle_head import features_of, load, same_tree, tree_after
from tests.engine.test_sizing import COSTS, SAMPLER, run_rounds, sized, sure_table
from tests.engine.tiny import make_model, write_layout

FAST, SLOW = Sizing(4, 2, 2.0, 1.5, 1.0), Sizing(4, 2, 1.2, 1.5, 1.0)


def rests(sizing: TreeSizing, drafted: Sizing, tokens: int, rounds: int) -> list[int]:
    """Lengths of the rests, by their order, and negative ones for the drafted rounds between."""
    lengths = [0]
    for _ in range(rounds):
        resting = sizing.is_resting
        if lengths[-1] and (lengths[-1] > 0) != resting:
            lengths.append(0)
        if resting:
            plain = sizing.rest()
            assert (plain.nodes, plain.levels, plain.expected) == (0, 0, 1.0)
            assert plain.seconds == plain.plain > 0
            lengths[-1] += 1
        else:
            sizing.learn(drafted, tokens)
            lengths[-1] -= 1
    return lengths


def test_drafting_that_is_slower_rests_longer_and_longer() -> None:
    """A session that stays slower than plain decoding; or that never tries again."""
    found = rests(TreeSizing(Costs({1: 1.0}), 20), SLOW, 1, 1000)[:-1]
    drafted, rested = found[0::2], found[1::2]
    assert -30 <= drafted[0] <= -5  # for a while, and not at once
    assert all(-30 <= rounds <= -3 for rounds in drafted[1:])
    assert all(b in (a, 2 * a) for a, b in pairwise(rested))
    assert rested[1] > rested[0]
    assert 16 <= rested[-1] <= 200  # it levels off: a text that can be drafted is noticed
    assert len(rested) > 8


def test_drafting_that_pays_does_not_rest() -> None:
    """One round without an accepted node taken for a reason to stop; or no look at what plain rounds take."""
    sizing = TreeSizing(Costs({1: 1.0}), 20)
    plain = 0
    for i in range(300):
        sizing.learn(FAST, 1 if i % 4 == 0 else 3)  # 1.67 tokens a second, plain decoding 1
        if sizing.is_resting:
            sizing.rest()
            plain += 1
            assert not sizing.is_resting
    assert 3 <= plain <= 6


def test_rests_end_when_drafting_pays_again() -> None:
    """A rest that lasts as long as the longest one, although drafting has paid in between."""
    sizing = TreeSizing(Costs({1: 1.0}), 20)
    first = rests(sizing, SLOW, 1, 500)
    while sizing.is_resting:
        sizing.rest()
    assert all(rounds < 0 or rounds == 1 for rounds in rests(sizing, FAST, 3, 200))
    again = rests(sizing, SLOW, 1, 500)
    assert again[1] == first[1] < max(first)


def force_rest(sizing: TreeSizing) -> None:
    """As after many slow rounds."""
    while not sizing.is_resting:
        sizing.learn(SLOW, 0)


def test_a_rested_round_is_the_root_alone() -> None:
    """A level drawn in vain, or a tree without the size that is shown; lessons from rounds without drafts."""
    drafter = sized(TableHead(sure_table()), COSTS["free rows"])
    assert drafter.sizing
    force_rest(drafter.sizing)
    trees = run_rounds(drafter, 40)
    plain = [tree for tree in trees if not tree.growth]
    assert 4 <= len(plain) < 40
    assert trees[: len(plain)] == plain
    for tree in plain:
        assert tree.host.parents == [-1]
        assert tree.values is None
        assert tree.growth is None
        assert tree.sizing == Sizing(0, 0, 1.0, 1.0, 1.0, "rest")
    assert all(tree.growth for tree in trees[len(plain) :])


@pytest.mark.parametrize("started", [0, 5])
def test_after_a_rest_the_head_has_read_everything(tmp_path: Path, started: int) -> None:
    """Pairs of the rested rounds that the head never reads, or reads with features of other tokens."""
    model = make_model("llama")
    folder = write_layout(tmp_path, "qwen2", model)
    tokens = [(5 * i + i * i) % 90 for i in range(80)]
    features = features_of(tokens)

    def rested(features: Tensor) -> DraftTree:
        drafter = Eagle2(load(folder, model), nodes=15, depth=3, beam=4)
        if started:
            tree_after(drafter, tokens[:started], features)
        drafter.sizing = TreeSizing(Costs({1: 1.0}), 15)
        force_rest(drafter.sizing)
        end = started + 2
        while drafter.sizing.is_resting:
            tree = tree_after(drafter, tokens[:end], features)
            assert len(tree) == 1
            assert drafter.length <= started
            end += 1
        assert end > started + 4
        drafter.sizing = None  # so that the whole tree is compared, whatever it costs
        return tree_after(drafter, tokens, features)

    with torch.inference_mode():
        expected = tree_after(Eagle2(load(folder, model), nodes=15, depth=3, beam=4), tokens, features)
        same_tree(rested(features), expected)
        wrong = features.clone()
        wrong[started + 1] += 3  # the control: a single wrong feature among the rested ones shows
        assert not torch.allclose(rested(wrong).values, expected.values, atol=1e-3)


def test_rewound_in_the_middle_of_a_rest(tmp_path: Path) -> None:
    """An edit while the head is behind: rows it never had must not count as read."""
    model = make_model("llama")
    folder = write_layout(tmp_path, "llama3", model)
    tokens = [(3 * i + i * i) % 90 for i in range(60)]
    features = features_of(tokens)
    with torch.inference_mode():
        drafter = Eagle2(load(folder, model), nodes=15, depth=3, beam=4)
        tree_after(drafter, tokens[:10], features)
        drafter.sizing = TreeSizing(Costs({1: 1.0}), 15)
        force_rest(drafter.sizing)
        for end in range(12, 15):
            assert len(tree_after(drafter, tokens[:end], features)) == 1
        drafter.rewind(11)
        drafter.sizing = None
        edited, other = [*tokens[:12], 1, 2, 3, 4], features.clone()
        other[11:] += 1
        found = tree_after(drafter, edited, other)
        fresh = Eagle2(load(folder, model), nodes=15, depth=3, beam=4)
        same_tree(found, tree_after(fresh, edited, other))


def test_rows_that_turn_out_expensive() -> None:
    """Rows measured as free that are not, as in a long context: replies slower than plain ones for good."""
    drafter = sized(TableHead(sure_table()), COSTS["free rows"])
    assert drafter.sizing
    seconds, tokens = 0.0, 0
    for length in range(2, 400):
        observe(drafter, [i % 31 for i in range(1, length + 1)], rows=0, path=[0])
        tree = drafter.propose([i % 31 for i in range(1, length + 1)], SAMPLER)
        took = 1.0 * len(tree)  # not what was measured
        drafter.sizing.costs.saw(len(tree), took)
        accepted = min(3, max(tree.depths))
        if tree.growth and tree.sizing:
            drafter.sizing.learn(tree.sizing, 1 + accepted)
        if length > 200:
            seconds, tokens = seconds + took, tokens + 1 + accepted
    assert tokens / seconds > 0.8  # of plain decoding, which takes a second for each
