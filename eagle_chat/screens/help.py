"""Keys, commands and definitions. Keys and commands are read from what runs them, so it cannot lie."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import HorizontalGroup, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from eagle_chat.screens.steady import SteadyModal
from eagle_chat.themed_app import ThemedApp

Rows = list[tuple[str, str]]

NUMBERS: Rows = [
    ("round", "draft, verify, accept: one forward pass of the model"),
    ("τ", "tokens per round: (new tokens − 1) / rounds; plain decoding is 1.00"),
    ("tok/s", "(new tokens − 1) / decoding time on the engine's clock; reading the prompt is counted apart"),
    ("accepted by depth", "of the rounds that drafted a token at depth d, the share that kept one there"),
    ("×", "tok/s against plain decoding of the same prompt on this machine: ctrl+r measures it"),
    ("KV", "tokens in the model's cache, of as many as fit, and their keys and values in megabytes"),
    ("memory", "what the whole process has: weights, caches, program"),
    ("calibration", "of the tokens drafted with so much confidence and put to the model in this "
        "conversation, the share it took; where both agree the drafter knows its limits; ~: fewer than 20"),
    ("screen", "share of the time that painting takes; it slows down to stay at 2 %"),
    (
        "n8 d3 b4",
        "nodes verified a round, longest drafted path, nodes expanded a level; ≤: sized by their cost",
    ),
    ("fp32 gap", "where two texts part: how far apart full precision sees the two best tokens there"),
    ("noise, score", "at temperature above 0 the token with the highest log p + noise is taken; the noise "
        "depends on seed, place and token alone, so drafting cannot change it"),
]  # fmt: skip
TREE: Rows = [
    ("◆ root", "the last token of the text so far"),
    ("● accepted", "drafted, and what the model itself says"),
    ("○ rejected", "drafted beside the accepted path"),
    ("· unreachable", "below a rejected one"),
    ("★ target's own", "the bonus, what the model says where no draft fits: every round ends with one"),
    ("nn/mm", "the drafter's and the model's probability, percent"),
]
PHASES: Rows = [
    ("draft", "the drafter adds a level of candidates, below the best it has so far"),
    ("rerank", "the best of all levels are kept for the model, the rest is dropped"),
    ("verify", "one forward pass gives the model's probability of every candidate"),
    ("accept", "from the root along what the model takes"),
    ("bonus", "the model's own next token: the pass has computed it already"),
]
REPLAY: Rows = [
    ("time", "the engine's clock, as it was recorded: drafting, verifying and what lies between"),
    ("slow motion", "where a round takes a quarter of a second or more, its tree grows before the verdict"),
    ("underlined", "what the newest round wrote"),
    ("notable round", "a tree of three or more levels accepted to the bottom; two or more tokens accepted "
        "along a path that leaves the drafter's first choices; a miss where the drafter was at least 50 % "
        "sure; drafting that begins to rest"),
    ("marker", "words about a round that somebody wrote into the trace: a lesson"),
    ("two traces", "both clocks start together, each run keeps its own pace"),
]  # fmt: skip
PROMISE = (
    "Drafting does not change the text: same seed, same text, in fp32 to the last token. In half precision "
    "two runs may part where two tokens are nearly tied. ctrl+r shows it."
)


class HelpScreen(SteadyModal[None]):
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
                yield from _section(title, _keys(bindings, self._keymap()))
            if self._commands:
                yield from _section("Commands, in the prompt; tab completes", self._commands)
            if self._replay:
                yield from _section("What is replayed", REPLAY)
            yield from _section("The numbers", NUMBERS)
            yield from _section("The tree", TREE)
            yield from _section("The phases of a round", PHASES)
            yield Static(Content(PROMISE), classes="help-title")

    def _keymap(self) -> Mapping[str, str]:
        """The user's own keys."""
        return self.app.look.keymap if isinstance(self.app, ThemedApp) else {}


def _section(title: str, rows: Rows) -> ComposeResult:
    yield Static(Content(title), classes="help-title")
    for term, meaning in rows:
        with HorizontalGroup():
            yield Static(Content(term), classes="help-term")
            yield Static(Content(meaning), classes="help-meaning")


def _keys(bindings: Iterable[BindingType], keymap: Mapping[str, str]) -> Rows:
    """Keys and what they do; keys that do the same share a row."""
    rows: dict[str, list[str]] = {}
    for each in bindings:
        binding = each if isinstance(each, Binding) else Binding(*each)
        meaning = f"{binding.description}: {binding.tooltip}" if binding.tooltip else binding.description
        rows.setdefault(meaning, []).append(_names(keymap.get(binding.id or "", binding.key)))
    return [(", ".join(keys), meaning) for meaning, keys in rows.items()]


def _names(keys: str) -> str:
    names = {"escape": "esc", "question_mark": "?", "slash": "/", "comma": ",", "full_stop": "."}
    names |= {"left_square_bracket": "[", "right_square_bracket": "]"}
    names |= {"less_than_sign": "<", "greater_than_sign": ">", "minus": "-", "plus": "+", "equals_sign": "="}
    return ", ".join(names.get(key, key) for key in keys.split(","))
