"""What a user may choose between two replies, and how it is read from what they write."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from eagle_chat.errors import UsageError
from eagle_chat.methods import CARDS, Method
from eagle_chat.options import Options, is_utf8

MOST_SEED = 2**63 - 1
MOST_TREE = {"nodes": 1024, "depth": 64, "beam": 128}


@dataclass(frozen=True, slots=True)
class Choices:
    """How the next reply is decoded. Fields mean what they mean in `Options`; None where we choose."""

    method: str = "none"
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None  # a random one for each reply
    max_new_tokens: int = 512
    system: str | None = None
    nodes: int | None = None  # of the head's tree, as are depth and beam: all None sizes it by its cost
    depth: int | None = None
    beam: int | None = None

    @classmethod
    def of(cls, options: Options, method: str) -> Choices:
        """What the command line chose, with the method that came of it."""
        shared = {field.name: getattr(options, field.name) for field in fields(cls) if field.name != "method"}
        return cls(method=method, **shared)

    @property
    def tree(self) -> dict[str, int]:
        """What is chosen of the head's tree."""
        sizes = {"nodes": self.nodes, "depth": self.depth, "beam": self.beam}
        return {name: size for name, size in sizes.items() if size is not None}

    def filters(self) -> str:
        """Filters that are on, for a line of settings: `p0.9 k40`."""
        parts = {
            "p": self.top_p if self.top_p < 1 else None,
            "k": self.top_k or None,
            "min-p ": self.min_p or None,
            "penalty ": self.repetition_penalty if self.repetition_penalty != 1 else None,
        }
        return " ".join(f"{name}{value:g}" for name, value in parts.items() if value is not None)


DEFAULTS = Choices()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One field of `Choices` as a user sees it."""

    name: str  # the field
    command: str  # without its slash
    argument: str  # what to write behind it
    meaning: str
    read: Callable[[str], Any]  # raises UsageError
    unset: str = ""  # the word for None

    def parse(self, text: str) -> Any:
        """The value of what was written. Raises UsageError with a sentence that says what would do."""
        text = text.strip()
        return None if self.unset and text.lower() in ("", self.unset) else self.read(text)

    def show(self, choices: Choices) -> str:
        """The value in force, as one would write it."""
        value = getattr(choices, self.name)
        if value is None:
            return self.unset
        return f"{value:g}" if isinstance(value, float) else str(value)


def _number(kind: type, allowed: Callable[[float], bool], wanted: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not allowed(value):
            raise UsageError(f"it has to be {wanted}, not {text or 'nothing'}")
        return value

    return read


def _tree(name: str) -> Callable[[str], Any]:
    most = MOST_TREE[name]
    return _number(int, lambda n: 1 <= n <= most, f"a whole number from 1 to {most}, or auto")


def _system(text: str) -> str:
    if not is_utf8(text):
        raise UsageError("the text is not valid UTF-8")
    return text


PARAMETERS = (
    Parameter(
        "temperature", "temp", "T", "temperature; 0 is greedy",
        _number(float, lambda t: t == 0 or t >= 0.001, "0 (greedy), or a number from 0.001 on"),
    ),
    Parameter(
        "top_p", "top-p", "P", "sample from the likeliest tokens of this mass; 1 is off",
        _number(float, lambda p: 0 < p <= 1, "a number above 0 and at most 1"),
    ),
    Parameter(
        "top_k", "top-k", "K", "sample from this many tokens; 0 is off",
        _number(int, lambda k: k >= 0, "a whole number, 0 (off) or larger"),
    ),
    Parameter(
        "min_p", "min-p", "P", "drop tokens less likely than this share of the best one's; 0 is off",
        _number(float, lambda p: 0 <= p <= 1, "a number from 0 to 1"),
    ),
    Parameter(
        "repetition_penalty", "penalty", "R", "above 1 discourages repeats; 1 is off",
        _number(float, lambda r: r >= 0.01, "a number from 0.01 on"),
    ),
    Parameter(
        "seed", "seed", "N|random", "same seed, same text",
        _number(int, lambda n: 0 <= n <= MOST_SEED, f"random, or a whole number from 0 to {MOST_SEED}"),
        "random",
    ),
    Parameter(
        "max_new_tokens", "max", "N", "longest reply, tokens",
        _number(int, lambda n: n >= 1, "a whole number, 1 or larger"),
    ),
    Parameter("nodes", "nodes", "N|auto", "drafted nodes verified a round", _tree("nodes"), "auto"),
    Parameter("depth", "depth", "N|auto", "longest drafted path", _tree("depth"), "auto"),
    Parameter("beam", "beam", "N|auto", "nodes expanded a level", _tree("beam"), "auto"),
    Parameter("system", "system", "TEXT|none", "system prompt, for the whole conversation", _system, "none"),
)  # fmt: skip


def method_parameter(methods: tuple[str, ...]) -> Parameter:
    """The method, where these can be had."""

    def read(text: str) -> str:
        if text in CARDS and text not in methods and Method.NONE in methods:
            raise UsageError(f"{text} needs weights that were not loaded: start with --head FOLDER")
        if text not in methods:
            raise UsageError(f"it has to be one of {', '.join(methods)}, not {text or 'nothing'}")
        return text

    return Parameter("method", "method", "NAME", "what drafts; the text does not depend on it", read)
