"""Keys, commands and definitions. Keys and commands are read from what runs them, so it cannot lie."""

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import HorizontalGroup, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

Rows = list[tuple[str, str]]

NUMBERS: Rows = [
    ("round", "draft, verify, accept: one forward pass of the model"),
    ("τ", "tokens per round: (new tokens − 1) / rounds; plain decoding is 1.00"),
    ("tok/s", "(new tokens − 1) / decoding time on the engine's clock; reading the prompt is counted apart"),
    ("accepted by depth", "of the rounds that drafted a token at depth d, the share that kept one there"),
    ("×", "tok/s against plain decoding of the same prompt on this machine: ctrl+r measures it"),
    ("screen", "share of the time that painting takes; it slows down to stay at 2 %"),
    (
        "n8 d3 b4",
        "nodes verified a round, longest drafted path, nodes expanded a level; ≤: sized by their cost",
    ),
    ("fp32 gap", "where two texts part: how far apart full precision sees the two best tokens there"),
]
TREE: Rows = [
    ("◆ root", "the last token of the text so far"),
    ("● accepted", "drafted, and what the model itself says"),
    ("○ rejected", "drafted beside the accepted path"),
    ("· unreachable", "below a rejected one"),
    ("★ target's own", "the bonus, what the model says where no draft fits: every round ends with one"),
    ("nn/mm", "the drafter's and the model's probability, percent"),
]
REPLAY: Rows = [
    ("time", "the engine's clock, as it was recorded: drafting, verifying and what lies between"),
    ("slow motion", "where a round takes a quarter of a second or more, its tree appears before the verdict"),
    ("underlined", "what the newest round wrote"),
    ("notable round", "a tree of three or more levels accepted to the bottom; two or more tokens accepted "
        "along a path that leaves the drafter's first choices; a miss where the drafter was at least 50 % "
        "sure; drafting that begins to rest"),
    ("two traces", "both clocks start together, each run keeps its own pace"),
]  # fmt: skip
PROMISE = (
    "Drafting does not change the text: same seed, same text, in fp32 to the last token. In half precision "
    "two runs may part where two tokens are nearly tied. ctrl+r shows it."
)


class HelpScreen(ModalScreen[None]):
    """A page over the chat."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,question_mark,q", "dismiss", "close", id="help.close"),
    ]

    def __init__(
        self, *sections: tuple[str, Iterable[BindingType]], replay: bool = False, commands: Rows | None = None
    ) -> None:
        super().__init__()
        self._commands = commands
        self._sections = sections
        self._replay = replay

    def compose(self) -> ComposeResult:
        """One scrolling page."""
        with VerticalScroll(id="help") as page:
            page.border_title = "help"
            page.border_subtitle = "esc closes"
            for title, bindings in self._sections:
                yield from _section(title, _keys(bindings))
            if self._commands:
                yield from _section("Commands, in the prompt; tab completes", self._commands)
            if self._replay:
                yield from _section("What is replayed", REPLAY)
            yield from _section("The numbers", NUMBERS)
            yield from _section("The tree", TREE)
            yield Static(Content(PROMISE), classes="help-title")


def _section(title: str, rows: Rows) -> ComposeResult:
    yield Static(Content(title), classes="help-title")
    for term, meaning in rows:
        with HorizontalGroup():
            yield Static(Content(term), classes="help-term")
            yield Static(Content(meaning), classes="help-meaning")


def _keys(bindings: Iterable[BindingType]) -> Rows:
    """Keys and what they do; keys that do the same share a row."""
    rows: dict[str, list[str]] = {}
    for each in bindings:
        binding = each if isinstance(each, Binding) else Binding(*each)
        meaning = f"{binding.description}: {binding.tooltip}" if binding.tooltip else binding.description
        rows.setdefault(meaning, []).append(_names(binding))
    return [(", ".join(keys), meaning) for meaning, keys in rows.items()]


def _names(binding: Binding) -> str:
    names = {"escape": "esc", "question_mark": "?", "comma": ",", "full_stop": "."}
    names |= {"left_square_bracket": "[", "right_square_bracket": "]"}
    names |= {"minus": "-", "plus": "+", "equals_sign": "="}
    return ", ".join(names.get(key, key) for key in binding.key.split(","))
