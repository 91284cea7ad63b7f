"""What a head may propose: its draft vocabulary and the tokens of the text, for as long as it is the text."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from engine.drafters import draft_vocabulary
from engine.drafters.draft_vocabulary import DraftVocabulary, proposing
from engine.linear import Linear

VOCABULARY, HIDDEN = 50, 8
IDS = torch.tensor([3, 7, 8, 20])
HOLD = torch.randn(3, HIDDEN, generator=torch.Generator().manual_seed(1))


@pytest.fixture(params=[False, True])
def lm_head(request: pytest.FixtureRequest) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(HIDDEN, VOCABULARY, bias=request.param)


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_vocabulary, "BLOCK", 4)


@torch.no_grad()
def proposed(words: DraftVocabulary, lm_head: nn.Linear) -> set[int]:
    """The ids that have a score, each with that of the whole LM head, and once."""
    scores, ids = words.logits(HOLD), words.ids
    assert isinstance(ids, Tensor)
    assert scores.shape == (3, len(ids))
    assert scores.dtype == torch.float32
    real = scores[0] > draft_vocabulary.UNUSED / 2
    torch.testing.assert_close(scores[:, real], lm_head(HOLD)[:, ids[real]])
    assert real.sum() == ids[real].unique().numel()
    return set(ids[real].tolist())


@torch.no_grad()
def test_a_texts_tokens_come_and_go_with_it(lm_head: nn.Linear) -> None:
    """Catches rows of other tokens, twice the same one, and the names of the conversation before."""
    words, text = proposing(lm_head, IDS), [7, 30, 31, 30, 3, *range(40, 50)]
    for read in (0, 2, 3, 5, 6, 12, 15):
        words.read(text[:read])
        assert proposed(words, lm_head) == {*IDS.tolist(), *text[:read]}
    for kept, other in ((6, [1, 2, 31]), (2, []), (0, [49, 48])):
        words.rewind(kept)
        text = [*text[:kept], *other]
        words.read(text)
        assert proposed(words, lm_head) == {*IDS.tolist(), *text}


class Packed(Linear):
    """Weights that nobody holds unpacked."""

    unpacks = True
    unpacked = 0

    @property
    def weight(self) -> Tensor:
        self.unpacked += 1
        return super().weight


@torch.no_grad()
def test_a_packed_lm_head_is_unpacked_for_prompts_alone(lm_head: nn.Linear) -> None:
    """Catches a round that unpacks a gigabyte for one row, and a reply's tokens that never join."""
    packed = Packed(lm_head.weight.detach(), lm_head.bias)
    words, text = proposing(packed, IDS), [7, 30, 31]
    words.read(text)
    before = packed.unpacked
    for token in (40, 41):
        words.read(text := [*text, token])
    assert proposed(words, lm_head) == {*IDS.tolist(), 30, 31}
    assert packed.unpacked == before
    words.rewind(4)
    words.read([*text[:4], 42])
    assert proposed(words, lm_head) == {*IDS.tolist(), 30, 31, 40, 42}
    assert packed.unpacked == before + 1


@torch.no_grad()
def test_a_part_of_it(lm_head: nn.Linear) -> None:
    """Catches a smaller vocabulary that the text's tokens do not join, or whose rows are the larger one's."""
    for words in (proposing(lm_head, None).only(IDS), proposing(lm_head, torch.arange(0, 40)).only(IDS)):
        words.read([5, 45])
        assert proposed(words, lm_head) == {*IDS.tolist(), 5, 45}


@torch.no_grad()
def test_nothing_joins_an_lm_head_of_its_own(lm_head: nn.Linear) -> None:
    """Catches rows that such a head does not have, or a copy of those of all tokens."""
    for words in (proposing(lm_head, IDS, grows=False), proposing(lm_head, None)):
        before = words.ids
        words.read([30, 31])
        words.rewind(0)
        assert words.ids is before
        assert words.logits(HOLD).shape[-1] == words.size


@torch.no_grad()
def test_memory_says_when_a_graph_no_longer_holds(lm_head: nn.Linear) -> None:
    """Catches a recording that is replayed with rows that were let go, or made anew for every token."""
    words, seen = proposing(lm_head, IDS), []
    for read in range(10):
        words.read(list(range(30, 30 + read)))
        seen.append(words.memory)
    anew = [
        any(a is not b for a, b in zip(x, y, strict=False)) or len(x) != len(y) for x, y in pairwise(seen)
    ]
    assert [number for number, changed in enumerate(anew, start=1) if changed] == [1, 5, 9]
