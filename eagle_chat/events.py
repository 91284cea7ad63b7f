"""What a session tells whoever watches: plain values, in order, nothing to call back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eagle_chat.choices import DEFAULTS, Choices
from eagle_chat.comparison import Difference
from eagle_chat.records import Acceptance, RoundRecord

MEGABYTE = 1_000_000
SERVER = "server"
"""Method id of replies that a server decodes, however it does that."""


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
    method: str  # a method id, see `methods`
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
    kv_token_bytes: int = 0  # of one token in the target's cache; 0: unknown, as in older traces
    quant: str = "none"  # of the target's weights: none, int8, nf4
    server: str | None = None  # address of the server that runs the model


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
    messages: Sequence[Mapping[str, str]] = ()  # all that the model reads, the prompt last
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
class Paused:
    """The engine waits between two rounds until it is let go on."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """Text that a server sent. How it was drafted stays there."""

    text: str
    ms: float  # our clock, since the text before it or, for the first one, since the request
    tokens: int | None  # None where the server does not count along


@dataclass(frozen=True, slots=True)
class ServerSays:
    """What a server says of a reply when it is over; None where it does not."""

    new_tokens: int | None
    acceptance: Acceptance | None


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


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for the user; nothing begins or ends with it."""

    text: str


Event = (
    Loading
    | Ready
    | Changed
    | Refused
    | Started
    | Prefill
    | RoundDone
    | Paused
    | Arrived
    | ServerSays
    | Finished
    | Failed
    | Note
)
