"""What a session tells whoever watches: plain values, in order, nothing to call back."""

from dataclasses import dataclass, field
from typing import Any

from eagle_chat.choices import DEFAULTS, Choices
from eagle_chat.comparison import Difference
from eagle_chat.records import RoundRecord

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Loading:
    """Start-up progress. `total` is None while the amount is unknown; units are bytes or steps."""

    stage: str
    done: int = 0
    total: int | None = None

    def text(self) -> str:
        """Stage and progress; big totals are bytes, small ones steps."""
        if not self.total:
            return f"{self.stage}…"
        percent = min(100, 100 * self.done // self.total)
        if self.total >= MEGABYTE:
            return f"{self.stage}  {self.done / MEGABYTE:.0f}/{self.total / MEGABYTE:.0f} MB  {percent} %"
        return f"{self.stage}  {self.done}/{self.total}"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What is loaded, for titles, summaries and traces."""

    model: str  # as the user named it
    method: str  # method id: none, eagle2, eagle3, pld, draft-model
    dtype: str
    device: str
    weights_sha256: str
    context: int  # longest sequence, tokens
    nodes: int
    depth: int
    beam: int
    temperature: float
    head: str | None = None
    notes: tuple[str, ...] = ()  # sentences worth showing once
    sized: bool = False  # each round's tree is sized by its cost, within nodes, depth and beam


@dataclass(frozen=True, slots=True)
class Ready:
    """The models are loaded; the session takes prompts."""

    info: SessionInfo
    choices: Choices = DEFAULTS
    methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changed:
    """The next reply is decoded so."""

    info: SessionInfo
    choices: Choices


@dataclass(frozen=True, slots=True)
class Refused:
    """Something other than a reply cannot be done; all is as it was before it."""

    message: str


@dataclass(frozen=True, slots=True)
class Started:
    """A reply begins. `again` is True when the last prompt is run once more beside the conversation."""

    prompt: str
    method: str
    seed: int
    again: bool = False
    choices: Choices = DEFAULTS


@dataclass(frozen=True, slots=True)
class Prefill:
    """Progress through the prompt, tokens."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class RoundDone:
    """One round and the text it completed (may be empty while a character is incomplete)."""

    record: RoundRecord
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply is over: its whole text and the summary with the keys of the JSON contract."""

    text: str
    summary: dict[str, Any] = field(default_factory=dict)
    again: bool = False
    difference: Difference | None = None  # of a run `again`: where it parts from the conversation's reply


@dataclass(frozen=True, slots=True)
class Failed:
    """Something went wrong; the session goes on unless `fatal`."""

    message: str
    fatal: bool = False


Event = Loading | Ready | Changed | Refused | Started | Prefill | RoundDone | Finished | Failed
