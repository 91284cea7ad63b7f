"""What can go wrong with a server, each in one sentence that says what to do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.options import Options
from eagle_chat.server.session import connect
from tests.eagle_chat.http_server import Cut, Script, answer, delta, error, event, raw, serving

STALL = 0.3  # seconds
never = threading.Event()


def silent(request: dict[str, Any]) -> Iterator[bytes]:
    """A word, and then nothing."""
    yield delta("The")
    never.wait(4 * STALL)


def dropped(request: dict[str, Any]) -> Iterator[bytes]:
    """A word, and the connection is gone."""
    yield delta("The")
    raise Cut


FAILURES = [
    (error(401, "Invalid key"), "wants another key (401: Invalid key): set EAGLE_CHAT_API_KEY"),
    (error(403, ""), "wants another key (403): set EAGLE_CHAT_API_KEY"),
    (answer(404, '{"detail":"Not Found"}'), "has no /v1/chat/completions (404: Not Found): check --model"),
    (error(429, "Slow\ndown."), "has too many requests (429: Slow down): wait a moment"),
    (answer(503, "<html>busy</html>", "text/html"), "is not ready (503): wait a moment"),
    (error(500, "CUDA error"), "failed (500: CUDA error)"),
    (answer(307, ""), "sends us elsewhere (307): give that address"),
    (answer(200, '{"choices": []}'), "answers in one piece: it does not stream replies"),
    (answer(200, '{"error": {"message": "no"}}'), "failed (200: no)"),
    (answer(200, "<html></html>", "text/html"), "sent text/html for /v1/chat/completions and not a stream"),
    (raw(event("{nonsense")), "sent an event that is no part of a reply: {nonsense"),
    (raw(event("[1]")), "sent an event that is no part of a reply: [1]"),
    (raw(event({"choices": [{"delta": {"content": 7}}]})), "sent an event that is no part of a reply"),
    (raw(event({"choices": "no"})), "sent an event that is no part of a reply"),
    (raw(event({"error": {"message": "out of memory"}})), "ended the reply with an error: out of memory"),
    (raw(delta("The")), "ended the stream before the reply was complete: ask again"),
    (raw(), "ended the stream before the reply was complete: ask again"),
    (dropped, "closed the connection in the middle: ask again"),
    (silent, f"sent nothing for {STALL} seconds: ask again, or allow more with --server-timeout"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "said"), FAILURES)
def test_one_sentence(reply: Any, said: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Catches a traceback, a silent second try, and a key that is shown or logged."""
    monkeypatch.setenv("OPENAI_API_KEY", "sesame-open")
    script = Script(replies=[reply])
    with serving(script) as url, caplog.at_level(logging.DEBUG, logger="eagle_chat"):
        session = connect(Options(model="", server=url, server_timeout=STALL), lambda loading: None)
        with pytest.raises(EagleChatError) as failure:
            list(session.ask("Hi", seed=1, stop=threading.Event()))
    sentence = str(failure.value)
    assert said in sentence
    assert sentence.startswith("The server ")
    assert "\n" not in sentence
    assert "sesame" not in sentence + caplog.text
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ({"data": []}, "has no model loaded"),
        ("<html></html>", "for /v1/models and not a list of models"),
        ({"data": [{"name": "x"}]}, "for /v1/models and not a list of models"),
        ((404, {"detail": "Not Found"}), "has no /v1/models (404: Not Found)"),
        ((401, {"error": "no key"}), "wants another key (401: no key)"),
    ],
)
def test_no_list_of_models(models: Any, said: str) -> None:
    """Catches a page of something else taken for a server."""
    with serving(Script(models=models)) as url, pytest.raises(EagleChatError) as failure:
        connect(Options(model="", server=url), lambda loading: None)
    assert said in str(failure.value)


def test_nobody_there_and_no_tls() -> None:
    """Catches the HTTP library's own words for what happens most often."""
    with serving(Script()) as url:
        https = url.replace("http:", "https:")
        with pytest.raises(EagleChatError, match=r"cannot be reached safely \(.+\): check https://"):
            connect(Options(model="", server=https), lambda loading: None)
    with pytest.raises(EagleChatError, match=r"cannot be reached .*: check the address, and that it runs"):
        connect(Options(model="", server=url), lambda loading: None)


def test_a_key_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a key that no header can hold, told with the key in it."""
    monkeypatch.setenv("EAGLE_CHAT_API_KEY", "schlüssel")
    with pytest.raises(UsageError, match="EAGLE_CHAT_API_KEY holds characters") as failure:
        connect(Options(model="", server="http://127.0.0.1:1"), lambda loading: None)
    assert "schl" not in str(failure.value)
