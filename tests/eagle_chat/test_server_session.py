"""A conversation with a real HTTP server: what it is sent, what comes of what it sends, and how it ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from eagle_chat.errors import EagleChatError
from eagle_chat.events import Arrived, Event, Finished, Note, ServerSays, Started
from eagle_chat.options import Options
from eagle_chat.server.session import ServerSession, connect
from eagle_chat.summary import STOPPED_BY_USER
from tests.eagle_chat.http_server import Cut, Script, delta, error, event, raw, serving, sky

SKY = "The sky is blue."


@pytest.fixture
def script() -> Script:
    """A server that always replies that the sky is blue."""
    return Script(replies=[sky])


@pytest.fixture
def address(script: Script, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where that server is."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving(script) as url:
        yield url


def session_at(address: str, **options: Any) -> ServerSession:
    """A session with that server."""
    return connect(Options(**{"model": "", "server": address, **options}), lambda loading: None)


def ask(session: ServerSession, prompt: str = "sky?", stop: threading.Event | None = None) -> list[Event]:
    """All events of a reply."""
    return list(session.ask(prompt, seed=7, stop=stop or threading.Event()))


def finished(events: list[Event]) -> Finished:
    """The last of them."""
    assert isinstance(events[-1], Finished)
    return events[-1]


def test_what_the_server_is_sent(script: Script, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches sampling that is not passed on, a forgotten system prompt or turn, and a key not sent."""
    monkeypatch.setenv("EAGLE_CHAT_API_KEY", " secret\n")
    session = session_at(
        address, temperature=0.5, top_p=0.9, min_p=0.1, max_new_tokens=40, system="Be brief."
    )
    ask(session)
    ask(session, "Really?")
    first, second = script.requests
    assert first["messages"] == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "sky?"},
    ]  # fmt: skip
    assert second["messages"][2:] == [
        {"role": "assistant", "content": SKY}, {"role": "user", "content": "Really?"},
    ]  # fmt: skip
    wanted = {
        "model": "llama", "stream": True, "max_tokens": 40, "temperature": 0.5, "top_p": 0.9, "min_p": 0.1,
        "seed": 7,
    }  # fmt: skip
    assert {key: first.get(key) for key in wanted} == wanted
    assert not {"top_k", "repetition_penalty"} & {*first}
    assert script.keys == ["Bearer secret"] * 2


def test_pieces_tokens_and_summary(script: Script, address: str) -> None:
    """Catches text that comes only at the end, tokens counted twice, and figures nobody measured."""
    events = ask(session_at(address))
    assert isinstance(events[0], Started)
    arrived = [each for each in events if isinstance(each, Arrived)]
    assert [(each.text, each.tokens) for each in arrived] == [
        ("The", 1), (" sky", 2), (" is blue", 3), (".", 1),
    ]  # fmt: skip
    assert events[-2] == ServerSays(7, None)
    summary = finished(events).summary
    assert summary["text"] == SKY
    assert summary["new_tokens"] == 7
    assert summary["stopped_by"] == "stop_token"
    assert summary["tokens_per_second"] == pytest.approx(6 / (sum(each.ms for each in arrived[1:]) / 1000))
    assert summary["seconds"] == pytest.approx(sum(each.ms for each in arrived) / 1000)
    unknown = ("tokens", "rounds", "tau", "weights_sha256", "dtype")
    assert [summary[key] for key in unknown] == [None] * 5


def test_a_server_that_counts_only_at_the_end(script: Script, address: str) -> None:
    """Catches one token per piece taken for granted."""
    script.replies = [lambda request: sky(request, counting=False)]
    events = ask(session_at(address))
    assert {each.tokens for each in events if isinstance(each, Arrived)} == {None}
    assert finished(events).summary["new_tokens"] == 7


def test_bytes_in_any_pieces(script: Script, address: str) -> None:
    """Catches characters and lines that are cut where the network cuts them, and comments taken for text."""
    stream = b"".join([
        b": keep-alive\r\n\r\n", delta("Grüße, "), b": keep-alive\n\n",
        delta("世界 🦅\n").replace(b"\n", b"\r\n"), b"event: message\nid: 3\n", delta("!", finish="length"),
    ])  # fmt: skip
    script.replies = [raw(*(stream[at : at + 1] for at in range(len(stream))))]
    whole = finished(ask(session_at(address)))
    assert whole.text == "Grüße, 世界 🦅\n!"
    assert whole.summary["stopped_by"] == "max_new_tokens"  # and no [DONE] was needed


def test_thoughts_stand_before_the_reply(script: Script, address: str) -> None:
    """Catches the thoughts of a reasoning model lost, or run into its reply."""
    script.replies = [
        raw(delta(reasoning_content="Hm"), delta(reasoning="m."), delta("Blue."), delta(finish="stop"))
    ]
    assert finished(ask(session_at(address))).text == "<think>\nHmm.\n</think>\n\nBlue."


@pytest.mark.parametrize("begun", [True, False])
def test_stopped(script: Script, address: str, begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Catches a stop that waits for the next word, loses text, leaves the stream open or makes noise."""
    stop, release, in_time = threading.Event(), threading.Event(), list[bool]()

    def endless(request: dict[str, Any]) -> Iterator[bytes]:
        if not begun:
            stop.set()
            in_time.append(release.wait(8))
        return words()

    def words() -> Iterator[bytes]:
        yield delta("The")
        stop.set()
        for _ in range(800):
            if script.hung_up.wait(0.01):
                break
            yield b": still here\n\n"

    script.replies = [endless, sky]
    session = session_at(address)
    summary = finished(ask(session, stop=stop)).summary
    release.set()
    assert script.hung_up.wait(4)
    assert in_time == ([] if begun else [True])
    assert caplog.text == ""
    assert summary["stopped_by"] == STOPPED_BY_USER
    assert summary["text"] == ("The" if begun else "")
    ask(session, "And?")
    assert len(script.requests[-1]["messages"]) == (3 if begun else 1)


def test_a_part_of_a_reply_stays_in_the_conversation(script: Script, address: str) -> None:
    """Catches text lost when the connection is, and a failed reply that cannot be asked for again."""

    def cut(request: dict[str, Any]) -> Iterator[bytes]:
        yield delta("The sky")
        raise Cut

    script.replies = [cut, sky]
    session = session_at(address)
    coming, arrived = session.ask("sky?", seed=1, stop=threading.Event()), list[Event]()
    with pytest.raises(EagleChatError, match="closed the connection in the middle"):
        arrived.extend(coming)
    assert [each.text for each in arrived if isinstance(each, Arrived)] == ["The sky"]
    ask(session, "Go on.")
    assert script.requests[1]["messages"][1] == {"role": "assistant", "content": "The sky"}
    assert finished(list(session.regenerate(seed=2, stop=threading.Event()))).text == SKY
    assert script.requests[2]["messages"] == script.requests[1]["messages"]
    session.new_chat()
    ask(session, "Hi")
    assert script.requests[3]["messages"] == [{"role": "user", "content": "Hi"}]


def test_what_comes_after_the_last_word_is_not_needed(script: Script, address: str) -> None:
    """Catches a whole reply that fails because its counts were lost."""

    def cut(request: dict[str, Any]) -> Iterator[bytes]:
        yield delta(SKY, finish="stop")
        raise Cut

    script.replies = [cut]
    summary = finished(ask(session_at(address))).summary
    assert (summary["text"], summary["new_tokens"]) == (SKY, None)


def test_refused_parameters_are_left_out_and_said(script: Script, address: str) -> None:
    """Catches a strict server that cannot be used, and a refusal that is kept quiet or asked for again."""

    def strict(request: dict[str, Any]) -> Any:
        unknown = {"top_k", "min_p"} & {*request} or "continuous_usage_stats" in request["stream_options"]
        return error(400, "Unknown parameter")(request) if unknown else sky(request)

    script.replies = [strict]
    session = session_at(address, top_k=5, min_p=0.1)
    notes = [each.text for each in ask(session) if isinstance(each, Note)]
    assert notes == ["The server refuses top_k and min_p: it replies without."]
    assert len(script.requests) == 3
    assert not [each for each in ask(session) if isinstance(each, Note)]
    assert len(script.requests) == 4


def test_a_refusal_for_another_reason_is_told(script: Script, address: str) -> None:
    """Catches a server asked without end, and sampling given up for a conversation that is too long."""
    script.replies = [*[error(400, "maximum context length is 4096 tokens")] * 3, sky]
    session = session_at(address, top_k=5)
    with pytest.raises(EagleChatError, match="maximum context length is 4096 tokens"):
        ask(session)
    assert len(script.requests) == 3
    ask(session)
    assert script.requests[3]["top_k"] == 5


def test_which_model(script: Script, address: str) -> None:
    """Catches a model that the server does not have, and a choice made in silence."""
    script.models = {"data": [{"id": "llama", "max_model_len": 4096}, {"id": "qwen"}]}
    chosen = session_at(address)
    assert (chosen.info.model, chosen.info.context) == ("llama", 4096)
    assert chosen.info.notes == ("The server has llama, qwen; llama replies. --model names another.",)
    assert session_at(address, model="qwen").info.model == "qwen"
    with pytest.raises(EagleChatError, match="has no model phi; it has llama, qwen"):
        session_at(address, model="phi")


def test_counters_before_and_after(script: Script, address: str) -> None:
    """Catches the counters since the server's start taken for those of the reply."""
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    script.metrics = [
        "\n".join(f"vllm:spec_decode_{name}_total {count}" for name, count in zip(names, counts, strict=True))
        for counts in ((10, 50, 20), (14, 70, 26))
    ]
    says = ask(session_at(address))[-2]
    assert isinstance(says, ServerSays)
    assert says.acceptance is not None
    assert (says.acceptance.tau, says.acceptance.drafted) == (2.5, 20)


def test_counts_with_the_last_event(script: Script, address: str) -> None:
    """Catches llama.cpp's own counts passed over."""
    timings = {"predicted_n": 13, "draft_n": 15, "draft_n_accepted": 8}
    last = {"choices": [{"delta": {}, "finish_reason": "stop"}], "timings": timings}
    script.replies = [raw(delta(SKY), event(last), event("[DONE]"))]
    assert finished(ask(session_at(address))).summary["tau"] == 3.0


def test_restored_conversations_go_on(script: Script, address: str) -> None:
    """Catches a saved conversation that the server is not told of."""
    session = session_at(address, system="Be brief.")
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    session.restore(said, replace(session.choices, system=None))
    ask(session)
    assert json.dumps(script.requests[0]["messages"][:2]) == json.dumps(said)


def test_another_reply_is_asked_for_as_is_chosen_now(script: Script, address: str) -> None:
    """Catches a system prompt that was changed since, and that f5 does not send."""
    session = session_at(address, system="Be brief.")
    ask(session)
    for system in ("Be kind.", None):
        session.change(replace(session.choices, system=system))
        list(session.regenerate(seed=1, stop=threading.Event()))
    sky = {"role": "user", "content": "sky?"}
    kind = {"role": "system", "content": "Be kind."}
    assert [request["messages"] for request in script.requests[1:]] == [[kind, sky], [sky]]
