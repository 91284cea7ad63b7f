"""What a training run does; kept in its folder, so that a resumed run does the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from eagle_chat.errors import EagleChatError, UsageError


@dataclass(frozen=True)
class Plan:
    """What was asked for, and for which weights."""

    model: str
    method: str  # eagle2, eagle3, medusa, hydra or draft-model
    weights_sha256: str
    tokens: int  # of conversations
    passes: float  # over them
    vocabulary: int
    steps: int  # unrolled; heads of medusa and hydra
    regression: float
    seed: int
    data: str | None  # own conversations
    dtype: str = "auto"
    layers: int = 1  # of a draft model
    corpus: str | None = None  # folder of the run that wrote the conversations, where it is another

    @property
    def guesses(self) -> str:
        """`3 unrolled steps`, `4 heads` or `1 layer`."""
        if self.method == "draft-model":
            return f"{self.layers} {'layer' if self.layers == 1 else 'layers'}"
        return f"{self.steps} {'heads' if self.method in ('medusa', 'hydra') else 'unrolled steps'}"

    @classmethod
    def read(cls, folder: Path) -> Plan | None:
        """The plan of the run in `folder`; None where there is none. Raises UsageError."""
        file = folder / "plan.json"
        if not file.exists():
            return None
        try:
            plan = cls(**json.loads(file.read_text(encoding="utf-8")))
            whole = plan._has_its_types()
        except (OSError, ValueError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise UsageError(f"{file} is damaged: choose another folder with --out")
        return plan

    def write(self, folder: Path) -> None:
        """Keep the plan in `folder`, which is there. Raises EagleChatError."""
        partial = folder / "plan.partial"
        try:
            partial.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
            partial.replace(folder / "plan.json")
        except OSError as error:
            raise cannot_be_written(folder, error) from None

    def _has_its_types(self) -> bool:
        texts = (self.model, self.method, self.weights_sha256, self.dtype, self.data or "", self.corpus or "")
        whole = (self.tokens, self.vocabulary, self.steps, self.seed, self.layers)
        return (
            all(isinstance(value, str) for value in texts)
            and all(type(value) is int for value in whole)
            and all(isinstance(value, int | float) for value in (self.passes, self.regression))
        )


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder, and keep other commands out of it: they would overwrite each other's states."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "run.lock", timeout=0)
        lock.acquire()
    except Timeout:
        raise UsageError(
            f"another command is at work in {folder}: wait for it, or choose another folder"
        ) from None
    except OSError as error:
        raise cannot_be_written(folder, error) from None
    with lock:
        yield


def cannot_be_written(folder: Path, error: OSError) -> EagleChatError:
    """The one sentence."""
    return EagleChatError(f"{folder} cannot be written ({error.strerror}): choose another folder with --out")
