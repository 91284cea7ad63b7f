"""A scripted session: words instead of tokens, small trees, a made-up clock. No model, no torch."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from eagle_chat.choices import Choices
from eagle_chat.conversation import Turn
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Event, Finished, Loading, Prefill, RoundDone, SessionInfo, Started
from eagle_chat.records import Dropped, RoundRecord, TreeRecord
from eagle_chat.summary import STOPPED_BY_USER

INFO = SessionInfo(
    model="smollm2-135m",
    method="eagle2",
    dtype="fp32",
    device="cpu",
    weights_sha256="0" * 64,
    context=2048,
    nodes=8,
    depth=3,
    beam=4,
    temperature=0.0,
)
SKY = (
    "The sky is blue because of a process called Rayleigh scattering. When sunlight enters the air, "
    "its short waves are sent in every direction much more often than the long ones, so blue light "
    "reaches the eye from all over the sky."
)
ROUND_MS = {
    "eagle2": (4.0, 21.0, 1.5),
    "pld": (0.1, 20.0, 1.5),
    "lookahead": (0.1, 30.0, 1.5),
    "none": (0.0, 18.0, 0.5),
}


class FakeSession:
    """Answers every prompt with `text`. With `pace` set, every round waits for one release of it."""

    def __init__(  # noqa: PLR0913 - one for each thing that can be otherwise
        self,
        text: str = SKY,
        *,
        info: SessionInfo = INFO,
        pace: threading.Semaphore | None = None,
        delay: float = 0.0,
        plain_text: str | None = None,
        fail_at: int | None = None,
        damaged: str | None = None,
    ) -> None:
        self.info = info
        self.text = text
        self.pace = pace
        self.delay = delay
        self.plain_text = plain_text
        self.fail_at = fail_at  # round whose forward raises
        self.damaged = damaged  # method whose head cannot be loaded
        self.asked: list[str] = []
        self.seeds: list[int] = []
        self.new_chats = 0
        self.messages: list[dict[str, str]] = []
        self.choices = Choices(method=info.method)
        self.methods = ("none", info.method, "pld")
        self.restored: list[list[str]] = []  # prompts of every conversation that was put in place
        self.closed = False

    def ask(self, prompt: str, *, seed: int | None, stop: threading.Event) -> Iterator[Event]:
        self.asked.append(prompt)
        self.messages = [*self.messages, {"role": "user", "content": prompt}]
        seed = self.choices.seed if seed is None else seed
        return self._run(self.text, self._next_seed(seed), self.info.method, stop)

    def regenerate(self, *, seed: int | None, stop: threading.Event) -> Iterator[Event]:
        return self._run(f"Again: {self.text}", self._next_seed(seed), self.info.method, stop)

    def again(self, *, method: str, stop: threading.Event) -> Iterator[Event]:
        text = self.text if self.plain_text is None else self.plain_text
        return self._run(text, self.seeds[-1], method, stop, again=True)

    def new_chat(self) -> None:
        self.new_chats += 1
        self.messages = []

    def restore(self, messages: Sequence[dict[str, str]], choices: Choices) -> None:
        self.messages = list(messages)
        self.change(choices)

    def change(self, choices: Choices) -> None:
        if choices.nodes == 1000:
            raise UsageError("nodes 1000 is more than the 36 candidates that depth 3 and beam 4 draw")
        if choices.method == self.damaged:
            raise EagleChatError(f"The head of {self.damaged} is damaged.")
        self.choices = choices
        tree = {"nodes": 0, "depth": 0, "beam": 0} if choices.method == "none" else choices.tree
        self.info = replace(self.info, method=choices.method, temperature=choices.temperature, **tree)

    def go_on_after(self, turns: Sequence[Turn]) -> None:
        self.restored.append([turn.prompt for turn in turns])

    def close(self) -> None:
        self.closed = True

    def _next_seed(self, seed: int | None) -> int:
        self.seeds.append(1234 + len(self.seeds) if seed is None else seed)
        return self.seeds[-1]

    def _run(
        self, text: str, seed: int, method: str, stop: threading.Event, *, again: bool = False
    ) -> Iterator[Event]:
        answered = [message["role"] for message in self.messages[-1:]] == ["assistant"]
        asked = self.messages[:-1] if answered else self.messages
        yield Started(asked[-1]["content"] if asked else "", method, seed, again, asked, self.choices)
        yield Prefill(24, 24)
        done: list[RoundRecord] = []
        for words in _rounds(text, 1 if method == "none" else 3):
            if stop.is_set():
                break
            self._wait(stop)
            if self.fail_at == len(done) and not again:
                self.messages = self.messages if answered else asked[:-1]
                raise ValueError("shapes [8, 576] do not match")
            done.append(_record(len(done), words, method))
            yield RoundDone(done[-1], "".join(words))
        whole = b"".join(piece for record in done for piece in record.texts).decode()
        summary = _summary(done, whole, self.info) | {"method": method, "seed": seed}
        summary["stopped_by"] = STOPPED_BY_USER if stop.is_set() and whole != text else "stop token"
        if not again and whole:
            self.messages = [*asked, {"role": "assistant", "content": whole}]
        elif not answered:
            self.messages = asked[:-1]
        yield Finished(whole, summary, again)

    def _wait(self, stop: threading.Event) -> None:
        _wait(self.delay)
        while self.pace is not None and not self.pace.acquire(timeout=0.01) and not stop.is_set():
            pass


def factory(
    session: FakeSession,
    *,
    loading: tuple[Loading, ...] = (Loading("loading weights", 49_000_000, 98_362_432),),
) -> Callable[[Callable[[Loading], None]], FakeSession]:
    """What the app is given instead of a loader."""

    def make_session(progress: Callable[[Loading], None]) -> FakeSession:
        for event in loading:
            progress(event)
        return session

    return make_session


def _rounds(text: str, longest: int) -> Iterator[list[str]]:
    """Pieces of one word each: one for the prefill, then 1 to `longest` per round."""
    words = text.split(" ")
    pieces = [words[0], *(f" {word}" for word in words[1:])]
    yield pieces[:1]
    at, round_number = 1, 0
    while at < len(pieces):
        size = 1 + round_number % longest
        yield pieces[at : at + size]
        at, round_number = at + size, round_number + 1


def _record(index: int, words: list[str], method: str) -> RoundRecord:
    new = tuple(sum(word.encode()) for word in words)
    texts = tuple(word.encode() for word in words)
    if index == 0:
        tree = TreeRecord((1,), (b"<|im_start|>",), (-1,), (0.0,), (1.0,))
        return RoundRecord(0, new, texts, tree, (0,), 0, 0.91, 0.0, 180.0, 2.0)
    ms = ROUND_MS[method]
    if method == "none":
        return RoundRecord(index, new, texts, TreeRecord((1,), (b" so",), (-1,)), (0,), 0, None, *ms)
    return RoundRecord(
        index, new, texts, _tree(words[:-1]), tuple(range(len(words))), len(words) - 1, 0.62, *ms
    )


def _tree(accepted: list[str]) -> TreeRecord:
    """The accepted words as a chain, and rejected ones beside it, 8 drafted nodes in all."""
    rows: list[tuple[bytes, int, float, float]] = [(b" so", -1, 0.0, 1.0)]
    rows += [(word.encode(), at, -0.4 * (at + 1), 0.7) for at, word in enumerate(accepted)]
    others = [b" light", b" the", b" [a]", b" of", b" waves", b" sun", b" red", b" it"]
    for number, text in enumerate(others[: 9 - len(rows)]):
        rows.append((text, number % (len(accepted) + 1), -1.2 - 0.2 * number, 0.12))
    tokens, texts = tuple(range(100, 100 + len(rows))), tuple(row[0] for row in rows)
    dropped = (Dropped(77, b" sea", 0, 0.02, -3.9, False),)
    parents, values, target = (tuple(row[column] for row in rows) for column in (1, 2, 3))
    return TreeRecord(tokens, texts, parents, values, target, dropped, (4, 16, 16), -2.6)  # type: ignore[arg-type]


def _summary(done: list[RoundRecord], text: str, info: SessionInfo) -> dict[str, Any]:
    tokens = [token for record in done for token in record.new]
    decode = sum(record.ms for record in done[1:])
    return {
        "text": text,
        "tokens": tokens,
        "new_tokens": len(tokens),
        "rounds": max(len(done) - 1, 0),
        "tau": (len(tokens) - 1) / (len(done) - 1) if len(done) > 1 else None,
        "tokens_per_second": 1000 * (len(tokens) - 1) / decode if decode else None,
        "seconds": sum(record.ms for record in done) / 1000,
        "timings_ms": {},
        "model": info.model,
        "weights_sha256": info.weights_sha256,
        "dtype": info.dtype,
        "temperature": info.temperature,
    }


def _wait(seconds: float) -> None:
    """In short naps: a signal that another thread receives is handled between two of them."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.05))
