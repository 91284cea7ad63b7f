"""What a head may propose: what a target says most (FR-Spec, Zhao et al., 2025), and the text's own tokens.

Names, numbers and foreign words are rare, so that a small draft vocabulary has none of them. But where a
reply needs one it mostly stands in the text already: of what SmolLM2-135M said on the paper's tasks, 3 %
(programs) to 23 % (summaries) was outside of the 8,192 most frequent ids, and three quarters of that was in
the prompt. So a text brings its tokens along: some more rows of the LM head, for as long as it is the text.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from engine.linear import Linear, trimmed

UNUSED = -1e6  # score of a row that stands for no token: finite, so that differences of values are numbers
BLOCK = 64  # rows that are made at once
BLOCK_OF_GRAPHS = 1024  # where more of them mean that graphs are recorded anew


class DraftVocabulary:
    """The LM head's rows of what can be proposed.

    `ids` [D] are the target ids of the rows of `lm_head`, None where they are the same. With a `whole` LM
    head, of all the target's tokens, those of the text join.
    """

    def __init__(
        self, lm_head: nn.Linear | Linear, ids: Tensor | None = None, whole: nn.Linear | Linear | None = None
    ) -> None:
        self.lm_head, self.ids = lm_head, ids
        self._whole = whole if ids is not None else None
        self._is_costly = isinstance(whole, Linear) and whole.unpacks
        self._always = frozenset(ids.tolist() if ids is not None and whole is not None else ())
        self._places: dict[int, int] = {}  # of the text's own tokens, where each first stands, in that order
        self._length = 0  # tokens of the text that were read
        self._used = 0  # rows that stood for a token when the text was read
        self._kept = 0  # of those, rows that still do
        self._is_new = True  # a prompt may have come since it was read
        self._rows: Tensor | None = None  # [C, H] of the LM head, for those tokens and some to come
        self._bias: Tensor | None = None  # [C] fp32

    @property
    def size(self) -> int:
        """Tokens that can be proposed whatever the text is."""
        return self.lm_head.out_features

    @property
    def memory(self) -> tuple[Tensor, ...]:
        """What `logits` and `ids` read, as long as there are no more tokens than rows."""
        if self.ids is None or self._rows is None or self._bias is None:
            return ()
        return self.ids, self._rows, self._bias

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, D + C] fp32 scores of the next token, from [m, H]."""
        scores = self.lm_head(hidden).float()
        if self._rows is None or self._bias is None:
            return scores
        return torch.cat((scores, F.linear(hidden, self._rows).float() + self._bias), dim=-1)

    def read(self, tokens: list[int]) -> None:
        """Take the text's tokens in; what was read before is its beginning.

        Where the whole LM head is unpacked for a row of it, a reply's tokens join with the next prompt.
        """
        if self._whole is None:
            return
        for place in range(self._length, len(tokens)):
            if tokens[place] not in self._always:
                self._places.setdefault(tokens[place], place)
        self._length = len(tokens)
        if self._kept < len(self._places) and (self._is_new or not self._is_costly):
            self._add([*self._places][self._kept :], self._whole)
            self._kept = len(self._places)
        if self._used > self._kept and self._bias is not None:
            self._bias[self._kept : self._used] = UNUSED
        self._used, self._is_new = self._kept, False

    def rewind(self, length: int) -> None:
        """Only the first `length` tokens are still the text."""
        self._is_new = True
        self._length = min(self._length, length)
        self._places = {token: place for token, place in self._places.items() if place < length}
        self._kept = min(self._kept, len(self._places))

    def only(self, rows: Tensor) -> DraftVocabulary:
        """Those of its `rows` alone, [D], sorted; the text's tokens join them, too."""
        whole = self.lm_head if self.ids is None else self._whole
        return DraftVocabulary(
            trimmed(self.lm_head, rows), rows if self.ids is None else self.ids[rows], whole
        )

    def _add(self, tokens: list[int], whole: nn.Linear | Linear) -> None:
        """Put `tokens` into the next rows."""
        assert self.ids is not None
        start, end = self._kept, self._kept + len(tokens)
        new = torch.tensor(tokens).to(self.ids.device, non_blocking=True)
        rows = whole.weight[new].detach()  # [n, H]
        if self._rows is None or end > len(self._rows):
            self._make_room(end, rows)
        assert self._rows is not None
        assert self._bias is not None
        self.ids[self.size + start : self.size + end] = new
        self._rows[start:end] = rows
        self._bias[start:end] = 0.0 if whole.bias is None else whole.bias[new].detach().float()

    def _make_room(self, rows: int, like: Tensor) -> None:
        """For so many of the text's own tokens, and some more."""
        assert self.ids is not None
        block = BLOCK_OF_GRAPHS if self.ids.is_cuda else BLOCK
        had = 0 if self._rows is None else len(self._rows)
        more = -(-rows // block) * block - had
        new = like.new_zeros(more, like.shape[1]), self.ids.new_full((more,), UNUSED, dtype=torch.float32)
        self.ids = torch.cat((self.ids, self.ids.new_zeros(more)))
        self._rows = new[0] if self._rows is None else torch.cat((self._rows, new[0]))
        self._bias = new[1] if self._bias is None else torch.cat((self._bias, new[1]))


def proposing(whole: nn.Linear | Linear, ids: Tensor | None, *, grows: bool = True) -> DraftVocabulary:
    """The tokens `ids` [D] of an LM head that has all of the target's, and the text's if it `grows`.

    All of them where `ids` is None.
    """
    return DraftVocabulary(trimmed(whole, ids), ids, whole if grows else None)
