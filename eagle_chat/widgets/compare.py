"""One of the two runs of a comparison: its text, and its numbers on the engine's clock."""

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalGroup, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from eagle_chat.reply import Reply
from eagle_chat.visible import visible


class RunColumn(Vertical):
    """Shows a reply up to a moment of its own clock."""

    def __init__(self, name: str, title: str) -> None:
        super().__init__(id=name, classes="run")
        self.border_title = Content(f" {title} ")
        self._text = Static("", markup=False, classes="run-text")
        self._numbers = Static("", markup=False, classes="run-numbers")

    def compose(self) -> ComposeResult:
        """Text above, numbers below."""
        with VerticalScroll(), VerticalGroup(classes="page"):
            yield self._text
        yield self._numbers

    def on_mount(self) -> None:
        """Follow the end of the text."""
        self.query_one(VerticalScroll).anchor()

    def name_run(self, title: str) -> None:
        """Another title."""
        self.border_title = Content(f" {title} ")

    def clear(self) -> None:
        """Nothing has run yet."""
        self._text.update("")
        self._numbers.update("")

    def show(self, reply: Reply, ms: float, marked: int | None = None) -> None:
        """The text that was there after `ms` of decoding, and the numbers of the whole run so far.

        All of them are of decoding; the time that the prompt took stands apart.

        `marked` is the token of a finished run where the other one went on differently.
        """
        numbers = reply.statistics
        text = reply.text_at(numbers.prefill_ms + ms)
        content = Content(visible(text)) if marked is None else _with_mark(text, *reply.place_of(marked))
        self._text.update(content)
        parts = [f"{min(ms, reply.decode_ms) / 1000:6.2f} s"]
        if numbers.tokens_per_second is not None and numbers.tau is not None:
            parts += [f"{numbers.tokens_per_second:.1f} tok/s", f"τ {numbers.tau:.2f}"]
        if reply.problem:
            parts.append(f"✗ {reply.problem}")
        elif reply.over and ms >= reply.decode_ms:
            parts.append("■ stopped" if reply.stopped else "done")
        prefill = f"{numbers.prefill_ms / 1000:6.2f} s before that: prefill"
        self._numbers.update(Content(visible(f"{'   '.join(parts)}\n{prefill}")))


def _with_mark(text: str, begin: int, end: int) -> Content:
    """The text with one token in reverse video; a sign stands for one that is no text."""
    token = visible(text[begin:end])
    sign = token if token.strip("\n") else f"⏎{token}" if token else "■"
    return Content.assemble(visible(text[:begin]), (sign, "reverse"), visible(text[end:]))
