"""Which tokens a head may propose: the most frequent, where a file says which (FR-Spec, Zhao et al., 2025).

A smaller LM head drafts faster. The text stays the same, since only proposals shrink.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from eagle_chat.errors import UsageError
from eagle_chat.options import Options
from eagle_chat.weights import WeightsLocation

if TYPE_CHECKING:
    from eagle_chat.loading_drafters import AnyHead
    from engine import Target

ALL = "all"
BESIDE = "freq_*.pt"  # as FR-Spec names them, with how many there are


def load_network(options: Options, head: WeightsLocation, target: Target) -> tuple[AnyHead, list[str]]:
    """The head, with the tokens alone that `--draft-vocab` or a file in its folder says; what to tell."""
    from engine import Eagle3Head, EagleHead, load_draft_head, read_token_ids, trimmed

    network, asked = load_draft_head(head.folder, target, options.model), options.draft_vocab
    if asked == ALL:
        return network, []
    if not isinstance(network, EagleHead | Eagle3Head) or network.draft_vocab is not None:
        if asked is None:
            return network, []
        raise UsageError(
            f"--draft-vocab has no use with {head.name}: it is for EAGLE heads without a draft vocabulary of "
            "their own; leave it out"
        )
    file, count = _beside(head.folder) if asked is None else _file_and_count(asked)
    if file is None:
        return network, []
    ids = read_token_ids(file, target.vocabulary, count)
    network = trimmed(network, ids.to(network.device))
    if asked is not None:
        return network, []
    return network, [
        f"{head.name} proposes only the {len(ids):,} tokens of {file.name}, which lies in its folder; "
        f"--draft-vocab {ALL} gives it all {target.vocabulary:,}."
    ]


def _file_and_count(asked: str) -> tuple[Path, int | None]:
    """FILE or FILE:N. A name that ends so is a file's own where there is one."""
    name, colon, count = asked.rpartition(":")
    if not colon or not count.isdecimal() or Path(asked).expanduser().is_file():
        return Path(asked).expanduser(), None
    if int(count) < 1:
        raise UsageError(f"--draft-vocab {asked}: there has to be at least one token")
    return Path(name).expanduser(), int(count)


def _beside(folder: Path) -> tuple[Path | None, None]:
    """The largest of such files, by the number in its name."""
    found = [path for path in folder.glob(BESIDE) if path.stem.removeprefix("freq_").isdecimal()]
    return max(found, key=lambda path: int(path.stem.removeprefix("freq_")), default=None), None
