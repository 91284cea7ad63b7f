"""The same prompt with drafting and with another method, side by side.

The runs never share the machine: the earlier one is replayed at the pace it had.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from eagle_chat.bench_machine import hardware
from eagle_chat.comparison import Verdict, judge
from eagle_chat.events import SessionInfo
from eagle_chat.reply import Reply
from eagle_chat.reply_traces import packed_trace
from eagle_chat.result_card import method_name, result_card
from eagle_chat.screens.steady import SteadyScreen
from eagle_chat.visible import visible
from eagle_chat.widgets.compare import RunColumn
from eagle_chat.widgets.fitting_footer import FittingFooter


class CompareScreen(SteadyScreen[None]):
    """Left the reply of the conversation, at the pace it was made; right another run, live."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "stop and close", id="compare.close"),
        Binding("r", "next_method", "other method", id="compare.next_method",
                tooltip="the same prompt again, with the next method of this session"),
        Binding("x", "save", "save both", id="compare.save", tooltip="as traces, for `eagle-chat replay`"),
        Binding("y", "copy_card", "copy result", id="compare.copy", tooltip="the result card, as text"),
    ]  # fmt: skip

    class Wanted(Message):
        """The last prompt is to be run with this method."""

        def __init__(self, method: str) -> None:
            super().__init__()
            self.method = method

    def __init__(self, drafted: Reply, info: SessionInfo, methods: Sequence[str]) -> None:
        """The first of `methods` is under way."""
        super().__init__()
        self.drafted = drafted
        self.info = info
        self.methods = list(methods)
        self.other: Reply | None = None
        self.verdict: Verdict | None = None
        # held, not looked up: the screen may be closed while the run it shows comes to its end
        self._left = RunColumn("drafted", f"{drafted.method} · replayed at its own pace")
        self._right = RunColumn("plain", self._title())
        self._below = Static("", id="verdict", markup=False)

    @property
    def method(self) -> str:
        """What the conversation's method is compared with."""
        return self.methods[0]

    def compose(self) -> ComposeResult:
        """Two columns and the verdict."""
        yield Static(self._heading(), id="compare-heading")
        with Horizontal(id="runs"):
            yield self._left
            yield self._right
        yield self._below
        yield FittingFooter(compact=True)

    def on_mount(self) -> None:
        """Nothing has run yet."""
        self.paint()

    def begin(self, other: Reply) -> None:
        """The other run starts."""
        self.other = other
        self.paint()

    def paint(self) -> None:
        """Show both runs at the same moment of decoding, and the verdict once there is one."""
        other = self.other
        self._below.update(self._verdict_line())
        found = self.verdict.difference if self.verdict else None
        marked = found.index if found else None
        if other is None or not other.rounds:  # reading the prompt is no part of the race
            self._left.clear()
        else:
            ms = (self.drafted if other.over else other).decode_ms
            self._left.show(self.drafted, ms, marked)
            self._right.show(other, other.decode_ms, marked)
        self.refresh_bindings()

    def action_close(self) -> None:
        """Back to the chat; a run under way is stopped."""
        self.app.action_stop_reply()  # type: ignore[attr-defined]
        self.dismiss()

    def action_next_method(self) -> None:
        """Once more, with the next method."""
        self.methods = [*self.methods[1:], self.methods[0]]
        self.other = self.verdict = None
        self._right.name_run(self._title())
        self._right.clear()
        self.post_message(self.Wanted(self.method))
        self.paint()

    def action_copy_card(self) -> None:
        """The result as text, for a message or an issue."""
        assert self.other is not None
        card = result_card(
            self.drafted.prompt,
            [self.drafted.summary, self.other.summary],
            self._verdict_line(),
            self.info,
            hardware(self.info.device),
        )
        self.app.copy_to_clipboard(card)
        self.notify("Result card copied through the terminal (OSC 52), where it allows that.")

    def action_save(self) -> None:
        """Both runs as traces, which a replay shows on one clock."""
        runs = [run for run in (self.drafted, self.other) if run is not None]
        files = {f"-{run.method}{end}": make for run in runs for end, make in packed_trace(run).items()}
        self.app.keep("race", files)  # type: ignore[attr-defined]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what does something now."""
        over = self.other is not None and self.other.over
        if action == "next_method":
            return over and len(self.methods) > 1
        return action not in ("copy_card", "save") or self.verdict is not None

    def _heading(self) -> Content:
        prompt = visible(" ".join(self.drafted.prompt.split()))
        return Content.assemble(
            ("compare", "bold $primary"), f"  seed {self.drafted.seed}  ", (prompt, "$text-muted")
        )

    def _title(self) -> str:
        return "none · plain decoding, live" if self.method == "none" else f"{self.method} · live"

    def _verdict_line(self) -> str:
        other, drafted = self.other, self.drafted
        if other is None:
            return "getting ready…"
        name = method_name(other.method)
        if other.problem is not None:
            return f"no verdict: the {name} run failed"
        if not other.over:
            return (
                f"the same prompt and seed again, {'without drafting' if name == 'plain' else f'with {name}'}"
            )
        self.verdict = judge(drafted.summary, other.summary, other.difference)
        return self.verdict.sentence(None if name == "plain" else (drafted.method, name))
