"""The same prompt with drafting and without, side by side.

The runs never share the machine: the earlier one is replayed at the pace it had.
"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from eagle_chat.comparison import Verdict, judge
from eagle_chat.reply import Reply
from eagle_chat.visible import visible
from eagle_chat.widgets.compare import RunColumn


class CompareScreen(Screen[None]):
    """Left the reply of the conversation, at the pace it was made; right the plain run, live."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "stop and close", id="compare.close"),
    ]

    def __init__(self, drafted: Reply) -> None:
        super().__init__()
        self.drafted = drafted
        self.plain: Reply | None = None
        self.verdict: Verdict | None = None

    def compose(self) -> ComposeResult:
        """Two columns and the verdict."""
        yield Static(self._heading(), id="compare-heading")
        with Horizontal(id="runs"):
            yield RunColumn("drafted", f"{self.drafted.method} · replayed at its own pace")
            yield RunColumn("plain", "none · plain decoding, live")
        yield Static("", id="verdict", markup=False)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Nothing has run yet."""
        self.paint()

    def begin(self, plain: Reply) -> None:
        """The plain run starts."""
        self.plain = plain
        self.paint()

    def paint(self) -> None:
        """Show both runs at the same moment of the engine's clock, and the verdict once there is one."""
        # not there yet; or closed and losing its parts, while the run it showed comes to its end
        if not self.query(RunColumn) or self not in self.app.screen_stack:
            return
        ms = 0.0 if self.plain is None else self.plain.ms
        over = self.plain is not None and self.plain.over
        self.query_one("#drafted", RunColumn).show(self.drafted, self.drafted.ms if over else ms)
        if self.plain is not None:
            self.query_one("#plain", RunColumn).show(self.plain, ms)
        self.query_one("#verdict", Static).update(self._verdict_line())

    def action_close(self) -> None:
        """Back to the chat; a run under way is stopped."""
        self.app.action_stop_reply()  # type: ignore[attr-defined]
        self.dismiss()

    def _heading(self) -> Content:
        prompt = visible(" ".join(self.drafted.prompt.split()))
        return Content.assemble(
            ("compare", "bold $primary"), f"  seed {self.drafted.seed}  ", (prompt, "$text-muted")
        )

    def _verdict_line(self) -> str:
        plain, drafted = self.plain, self.drafted
        if plain is None:
            return "getting ready…"
        if plain.problem is not None:
            return "no verdict: the plain run failed"
        if not plain.over:
            return "the same prompt and seed again, without drafting"
        self.verdict = judge(drafted.summary, plain.summary, plain.difference)
        return self.verdict.sentence()
