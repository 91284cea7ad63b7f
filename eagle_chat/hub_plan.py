"""What a download would bring, before it begins."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle_chat.hub import FILES, OLDER, UNWANTED, answers, asking

TOKENIZER = "tokenizer_config.json"
WEIGHTS = (".safetensors", ".bin")


@dataclass(frozen=True, slots=True)
class Plan:
    """A repository's files that we want. Sizes are bytes."""

    repo: str
    files: int
    size: int
    missing: int  # still to be fetched


def plan(repo: str) -> Plan:
    """Asks the hub. Raises EagleChatError with one sentence."""
    with asking(repo):
        _require_answer(repo)
        files = _dry_run(repo, FILES)
        if not any(file.filename.endswith(WEIGHTS) for file in files):
            files = _dry_run(repo, [*FILES, *OLDER])
    sizes = [(file, file.file_size or 0) for file in files]
    return Plan(
        repo,
        files=len(files),
        size=sum(size for _, size in sizes),
        missing=sum(size for file, size in sizes if file.will_download),
    )


def config_of(repo: str) -> dict[str, Any]:
    """The config.json of a model on the hub, which stays in its cache. Raises EagleChatError."""
    with asking(repo):
        _require_answer(repo)
        return _json(repo, "config.json")


def has_chat_template(repo: str) -> bool:
    """Whether its tokenizer says how to chat; True where it has none that could. Raises EagleChatError."""
    with asking(repo):
        _require_answer(repo)
        names = {file.filename for file in _dry_run(repo, ["chat_template*", TOKENIZER])}
        return names != {TOKENIZER} or "chat_template" in _json(repo, TOKENIZER)


def _json(repo: str, name: str) -> dict[str, Any]:
    from huggingface_hub import hf_hub_download

    found = json.loads(Path(hf_hub_download(repo, name)).read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def _require_answer(repo: str) -> None:
    if not answers(repo):
        raise ConnectionError(f"no answer about {repo}")


def _dry_run(repo: str, patterns: list[str]) -> list[Any]:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import tqdm

    class Silent(tqdm):
        """A bar that draws nothing."""

        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **(kwargs | {"disable": True}))

    return snapshot_download(
        repo, allow_patterns=patterns, ignore_patterns=UNWANTED, dry_run=True, tqdm_class=Silent
    )
